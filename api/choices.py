"""Options of a search in the signatures of the Python API."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from ..sessions.search_options import HELP, AuthorChoices, hints_of, spell_out

Function = TypeVar("Function", bound=Callable[..., Any])


def taking(kind: type[AuthorChoices], defaults: dict[str, Any]) -> Callable[[Function], Function]:
    """Show the options of ``kind`` in signature and docstring of a function that takes them as ``**choices``.

    Args:
        kind: which.
        defaults: what those are that are left out; None where it has none.
    """

    def shown(function: Function) -> Function:
        hints = hints_of(kind)
        absent = {name: "" if hint is str else None for name, hint in hints.items()}
        spell_out(
            function,
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
                for name, default in {**absent, **{name: defaults[name] for name in absent if name in defaults}}.items()
            ],
            "pool",
        )
        lines = [textwrap.fill(f"{name}: {HELP[name]}", 116, subsequent_indent="    ") for name in hints]
        listed = textwrap.indent("\n".join(lines), " " * 8)
        function.__doc__ = (function.__doc__ or "").replace("        choices: of the search.", listed)
        return function

    return shown


__all__ = ["taking"]
