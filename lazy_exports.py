"""Packages that import what they export when it is first used: who needs one name does not wait for the others."""

import ast
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


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
        if (module := sys.modules.get(f"{package}.{places[name]}")) is None:
            # Some libraries draw random numbers where they are imported, and a user's program may have seeded them.
            state = random.getstate()
            module = import_module(f".{places[name]}", package)
            random.setstate(state)
        return getattr(module, name)

    return lookup, lambda: [*places]


def _exports(package: str) -> dict[str, str]:
    """By name, the module of ``package`` that defines it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return {}
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    blocks = [node.body for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {name.asname or name.name: node.module or "" for node in imports for name in node.names}
