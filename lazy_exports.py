"""Packages that import what they export when it is first used: who needs one name does not wait for the others."""

import random
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``.

    Args:
        package: its name.
        modules: the names that it exports, with blanks between them, by the module in it that defines them. No module
            may have such a name itself: an import of it would take the export's place.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def lookup(name: str) -> Any:
        if name not in places:
            # With its object Python adds what was meant.
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules.get(package)
            )
        if (module := sys.modules.get(f"{package}.{places[name]}")) is None:
            # Some libraries draw random numbers where they are imported, and a user's program may have seeded them.
            state = random.getstate()
            module = import_module(f".{places[name]}", package)
            random.setstate(state)
        return getattr(module, name)

    return lookup, lambda: [*places]
