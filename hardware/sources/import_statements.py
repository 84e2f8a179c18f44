"""Import statements of a Python text: what they name, and how they read once their modules lie in another package."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...schemas import ProblemError


@dataclass(frozen=True)
class Statement:
    """One ``import`` or ``from ... import``."""

    node: ast.Import | ast.ImportFrom
    certain: bool
    """Whether it runs whenever its file is imported: it stands under no ``if``, ``try`` or ``def``."""

    @property
    def level(self) -> int:
        """Leading dots."""
        return self.node.level if isinstance(self.node, ast.ImportFrom) else 0

    @property
    def is_star(self) -> bool:
        """Whether it takes every public name."""
        return isinstance(self.node, ast.ImportFrom) and self.node.names[0].name == "*"

    @property
    def shown(self) -> str:
        """What it imports from, as it is written."""
        if isinstance(self.node, ast.Import):
            return ", ".join(alias.name for alias in self.node.names)
        return "." * self.node.level + (self.node.module or self.node.names[0].name)

    def resolved(self, package: str) -> list[str] | None:
        """Absolute names of its modules, relative ones counted from ``package``; None if that leads above the root.

        ``from . import x`` at the root gives the empty name.
        """
        if isinstance(self.node, ast.Import):
            return [alias.name for alias in self.node.names]
        if not self.node.level:
            return [self.node.module or ""]
        parts = package.split(".") if package else []
        up = self.node.level - 1
        if up > len(parts):
            return None
        return [".".join([*parts[: len(parts) - up], *filter(None, [self.node.module])])]

    def inside(self, module: str) -> list[str]:
        """What it takes out of ``module``, as names that may be modules themselves."""
        if isinstance(self.node, ast.Import) or self.is_star:
            return []
        return [f"{module}.{alias.name}".lstrip(".") for alias in self.node.names]


def statements(tree: ast.Module) -> Iterator[Statement]:
    """Every import statement of ``tree``, in the order of the text."""
    certain = {id(node) for node in tree.body}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        yield Statement(node, id(node) in certain)


def renamed(statement: Statement, text: str, local: set[str], package: str, file: str) -> tuple[int, int, str]:
    """Where in ``text`` the statement stands, and what to write there so that ``local`` modules are ``package``'s.

    It has as many lines as before.

    Raises:
        ProblemError: it is written in a way that cannot be changed in place.
    """
    start, end = _offset(text, statement.node.lineno, statement.node.col_offset), _end(text, statement.node)
    written = text[start:end]
    if isinstance(statement.node, ast.Import):
        names = ", ".join(_import(alias, alias.name in local, package) for alias in statement.node.names)
        return start, end, "import " + "\\\n" * written.count("\n") + names
    module = r"\s*\.\s*".join(map(re.escape, (statement.node.module or "").split(".")))
    match = re.compile(r"from\s*" + r"\s*".join([r"\."] * statement.level) + r"\s*" + module).match(written)
    if match is None:
        raise ProblemError(
            f"{file} line {statement.node.lineno}: write `from {statement.shown} import ...` without line breaks"
        )
    space = "" if written[match.end()].isspace() else " "  # `from .import x` is Python, too
    return start, start + match.end(), "from " + ".".join(filter(None, [package, statement.node.module])) + space


def bound(tree: ast.Module) -> set[str]:
    """Names bound at module level, also below ``if`` and ``try``, by assignment, definition or import."""
    names: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in statement.names)
        else:
            names.update(_assigned(statement))
            pending += [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
    return names


def _assigned(statement: ast.stmt) -> set[str]:
    targets = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
    names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _import(alias: ast.alias, is_local: bool, package: str) -> str:
    """``alias`` as it reads in an import statement; without ``as`` its first part is what gets a name."""
    if not is_local:
        return f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    if alias.asname or "." not in alias.name:
        return f"{package}.{alias.name} as {alias.asname or alias.name}"
    top = alias.name.partition(".")[0]
    return f"{package}.{alias.name}, {package}.{top} as {top}"


def _offset(text: str, line: int, column: int) -> int:
    """Position in ``text`` of a place that ``ast`` gives, whose columns are bytes of UTF-8."""
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def _end(text: str, node: ast.stmt) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None, "a parsed text has the ends"
    return _offset(text, node.end_lineno, node.end_col_offset)
