"""Imports a user's file, problem or candidate, in a child."""

import importlib.util
import sys
import types
from pathlib import Path

from ...processes import objects
from .answering import attempt, user_files


def import_source(name: str, source: str, *, kind: str) -> types.ModuleType:
    """Write ``source`` as ``name.py`` into the working folder and import it.

    A real file, so that tracebacks show its lines and ``inspect`` finds it.

    Raises:
        Refused: it does not import (``kind``).
    """
    path = Path.cwd() / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    user_files.add(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    objects.use_classes_of(module)
    loader = spec.loader
    attempt(lambda: loader.exec_module(module), kind)
    return module
