"""Which line of somebody's code an error went through, and where an operator was written."""

import functools
import inspect
import linecache
import sys
import traceback
from pathlib import Path
from typing import Any

_OWN = (Path(__file__).parents[1], Path(__file__).parents[2] / "api")
_STANDARD_LIBRARY = Path(traceback.__file__).parent


def place_of(error: BaseException, *, of_libraries: bool = False) -> str:
    """`` in line 3 (`n = int(x)`)``: the innermost line of the author's own code that the error went through.

    ``of_libraries``: code may lie in many files, and the one is named; without a line of the author's own it is one of
    an installed package, but torch. Empty where there is none.
    """
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [(file, line) for file, line in lines if not file.startswith("<") and not _is_ours(file)]
    own = [(file, line) for file, line in lines if not _is_installed(file)]
    if not own and of_libraries:
        own = [(file, line) for file, line in lines if not _is_torch(file)]
    if not own:
        return ""
    file, line = own[-1]
    text = linecache.getline(file, line).strip()
    return f" in line {line}" + (f" of {file}" if of_libraries else "") + (f" (`{text}`)" if text else "")


def described(operator: Any) -> str:
    """What somebody wrote: a module's class or a function's name, with file and line where Python knows them."""
    operator = operator.func if isinstance(operator, functools.partial) else operator
    written = operator if hasattr(operator, "__qualname__") else type(operator)
    name = written.__qualname__.rpartition("<locals>.")[2]
    try:
        file, (_, line) = inspect.getsourcefile(written), inspect.getsourcelines(written)
    except (OSError, TypeError):
        return str(name)  # typed into a prompt, or of C
    return f"{name} ({file}:{line})"


def level_of_caller() -> int:
    """``stacklevel`` with which a warning of the function that asks names the line of somebody else's code."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and (_is_ours(frame.f_code.co_filename) or _is_torch(frame.f_code.co_filename)):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(file: str) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in _OWN)


def _is_installed(file: str) -> bool:
    path = Path(file)
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or path.is_relative_to(_STANDARD_LIBRARY)


def _is_torch(file: str) -> bool:
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    is_torch = torch is not None and Path(file).is_relative_to(Path(torch).parent)
    return is_torch or Path(file).is_relative_to(_STANDARD_LIBRARY)
