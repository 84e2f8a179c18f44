"""The text that loads a candidate's native code, put into files that leave it out: nobody needs to write it."""

import ast
from collections.abc import Iterator

from ..sources.parsing import parse
from . import cpp, cuda

_LOADERS = {"CPP": (cpp.LOADER, "_load"), "CUDA": (cuda.LOADER, "_launch")}
"""By prefix of the literals: the loader, and the function that it defines."""


def with_loader(source: str) -> str:
    """``source`` with the loader of its native code before its first statement after the imports.

    A file that has no native code, defines the function itself or is no Python comes back as it is.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    names = set(defined(tree))
    for prefix, (loader, function) in _LOADERS.items():
        if f"{prefix}_SOURCE" in names and function not in names:
            flags = "" if f"{prefix}_FLAGS" in names else f"{prefix}_FLAGS = []\n\n"
            return _inserted(source, tree, flags + loader)
    return source


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that the file defines at module level: functions, classes, assignments."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _inserted(source: str, tree: ast.Module, text: str) -> str:
    lines = source.splitlines(keepends=True)
    at = _end_of_imports(tree)
    before, after = "".join(lines[:at]), "".join(lines[at:])
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}\n{text}\n\n{after.lstrip(chr(10))}"


def _end_of_imports(tree: ast.Module) -> int:
    """Lines that belong to the docstring and the imports at the top."""
    end = 0
    for index, statement in enumerate(tree.body):
        docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (docstring or isinstance(statement, ast.Import | ast.ImportFrom)):
            break
        end = statement.end_lineno or end
    return end
