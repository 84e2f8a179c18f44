"""Options of a search, for the commands that take them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Optional, TypeVar, get_args

import typer

from ..agents.planner.policies import POLICIES
from ..agents.synthesizer.authors import AUTHOR_NAMES
from ..sessions.search_options import AGAINST, HELP, MEASURES, SearchChoices, hints_of, spell_out
from .completion import session_ids

BaseUrl = Annotated[str, typer.Option("--base-url", help=HELP["base_url"], show_default=False)]

_FLAGS = {"author": ("--author", "--synthesizer")}
_COMPLETIONS: dict[str, Callable[..., list[str]]] = {
    "against": lambda: list(AGAINST),
    "measure": lambda: list(MEASURES),
    "author": lambda: list(AUTHOR_NAMES),
    "policy": lambda: list(POLICIES),
    "seed_from": session_ids,
}
_LIMITS = ("minutes", "target", "max_cost", "max_tokens")
"""What a fork does not inherit."""
Command = TypeVar("Command", bound=Callable[..., Any])


def taking(names: Iterable[str], defaults: Mapping[str, Any], after: str = "pool") -> Callable[[Command], Command]:
    """Give the options ``names`` of a search to a command that takes them as ``**choices``.

    Args:
        names: which (:class:`SearchChoices`).
        defaults: what those are that are left out; one that has none is as it was in the session that is forked.
        after: the command's parameter behind which they stand.
    """

    def given_to(command: Command) -> Command:
        spell_out(command, [_parameter(name, defaults) for name in names if name != "synthesizer"], after)
        return command

    return given_to


def _parameter(name: str, defaults: Mapping[str, Any]) -> inspect.Parameter:
    default, hint = defaults.get(name), hints_of(SearchChoices)[name]
    inherited = name not in defaults and name not in _LIMITS
    option = typer.Option(
        *_FLAGS.get(name, (f"--{name.replace('_', '-')}",)),
        help=HELP[name] + (" By default as in the session." if inherited else ""),
        autocompletion=_COMPLETIONS.get(name),
        show_default=default not in (None, ""),
    )
    # Typer knows no unions but with None.
    kind = str if name == "seed_from" else next(kind for kind in (get_args(hint) or (hint,)) if kind is not type(None))
    annotation = Annotated[kind if default is not None else Optional[kind], option]  # type: ignore[valid-type]  # noqa: UP045
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
