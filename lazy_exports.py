"""Packages that import what they export when it is first used: who needs one name does not wait for the others."""

import ast
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .hardware.sources.parsing import parse


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
        path = f"{package}.{places[name]}"
        # Some libraries draw random numbers where they are imported, and a user's program may have seeded them.
        state = None if path in sys.modules else random.getstate()
        module = import_module(path)  # also of what is imported: it waits where another thread is not done with that
        if state is not None:
            random.setstate(state)
        return getattr(module, name)

    return lookup, lambda: [*places]


def _exports(package: str) -> dict[str, str]:
    """By name, the module of ``package`` that defines it."""
    spec = find_spec(package)
    loader: Any = spec.loader if spec is not None else None
    source = loader.get_source(package) if loader is not None else None  # of an archive, too
    if source is None:
        raise ImportError(f"{package} names its exports in its source, which is not there: install its .py files")
    blocks = [
        node.body
        for node in parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {name.asname or name.name: node.module or "" for node in imports for name in node.names}
