"""Packages that import what they export when it is first used: who needs one name does not wait for the others."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_IMPORT = re.compile(r"^    from \.([\w.]+) import (\([^)]*\)|.*)$", re.MULTILINE)


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``, which names its exports once: under ``if TYPE_CHECKING``.

    What is imported there from its own modules is imported by name when it is first asked for. No module may have such
    a name itself: an import of it would take the export's place.
    """
    places = _exports(package)

    def lookup(name: str) -> Any:
        if name not in places:
            # With its object Python adds what was meant.
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules.get(package)
            )
        return getattr(import_module(f".{places[name]}", package), name)

    return lookup, lambda: [*places]


def _exports(package: str) -> dict[str, str]:
    """By name, the module of ``package`` that defines it."""
    spec = find_spec(package)
    source = spec.loader.get_source(package) if spec is not None and spec.loader is not None else ""  # type: ignore[attr-defined]
    imports = _IMPORT.findall(source or "")
    return {name: module for module, names in imports for name in re.findall(r"\w+", names)}
