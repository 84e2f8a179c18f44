"""Puts the Python files beside a problem file into its text: what is searched is one text that travels and is hashed.

The files become modules of a package whose name no other program has, so that a finished kernel that holds the problem
does not hide modules of its user. Imports of them are renamed in place, the modules stand in the line of the first
import: every line keeps its number.
"""

import ast
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ...schemas import InputError, ProblemError, sha256
from .import_statements import Statement, bound, renamed, statements
from .parsing import parse

PREFIX = "_neighbours_"
"""What the package's name begins with; a hash of its modules follows."""

LARGEST = 1 << 20
"""Characters of a problem and its neighbours together."""

_LOADER = Path(__file__).with_name("_neighbour_loader.py")
_PLACEHOLDER = PREFIX + "0" * 8
"""Stands for the package's name until its modules, of which the name is a hash, are known."""


@dataclass
class _Bundle:
    """The modules that a problem imports from its folder, by dotted name."""

    root: Path
    problem: str
    """The problem file's name, for messages."""
    files: dict[str, str] = field(default_factory=dict)
    """Path relative to the root, by module."""
    texts: dict[str, str] = field(default_factory=dict)
    """Text with renamed imports, by module."""

    def rename(self, text: str, file: str, package: str | None) -> str:
        """``text`` with its imports of neighbours renamed; every neighbour that it names is taken in.

        Args:
            text: of the problem, or of a neighbour.
            file: its name, for messages.
            package: that relative imports start from; None for the problem itself, which stands in the folder.
        """
        imports = list(statements(_parsed(text, file, self.problem)))
        changes = [
            change for statement in imports if (change := self._change(statement, text, file, package)) is not None
        ]
        for start, end, new in reversed(changes):
            text = text[:start] + new + text[end:]
        return text

    def _change(self, statement: Statement, text: str, file: str, package: str | None) -> tuple[int, int, str] | None:
        absolute = statement.resolved(package or "")
        if absolute is None:
            raise ProblemError(f"{file} imports from above the problem's folder; only files in it and below can travel")
        local = [name for name in absolute if self._take(name)]
        if not local:
            self._check_there(statement, absolute, file)
            return None
        for name in statement.inside(absolute[0]):
            if not self._take(name) and not absolute[0]:
                raise ProblemError(_nowhere(file, statement, name))
        if statement.level and package is not None:
            return None  # relative to a module of the package it is right as it stands
        return renamed(statement, text, set(local), _PLACEHOLDER, file)

    def _take(self, name: str) -> bool:
        """Take the module ``name`` in, and the packages that it is in; False if it is no neighbour."""
        top = name.partition(".")[0]
        if name in self.texts or not name:
            return True
        if top in sys.stdlib_module_names or (file := _file_of(self.root, name)) is None:
            return False
        parent = name.rpartition(".")[0]
        if parent and not self._take(parent):
            return False
        self.files[name], self.texts[name] = str(file.relative_to(self.root)), ""  # a cycle ends here
        package = name if file.name == "__init__.py" else parent
        self.texts[name] = self.rename(_read(file, self.problem), self.files[name], package)
        return True

    def _check_there(self, statement: Statement, names: list[str], file: str) -> None:
        """Refuse what cannot be imported here, and so will not be where it is searched."""
        for name in names:
            top = name.partition(".")[0]
            if statement.level or (top not in sys.stdlib_module_names and _file_of(self.root, top)):
                raise ProblemError(_nowhere(file, statement, name))
            if statement.certain and not _is_installed(top):
                raise ProblemError(f"{file} imports `{top}`, which is neither installed nor a file beside it")


def bundled(source: str, path: Path) -> str:
    """The problem's text with the neighbours that it imports in it; unchanged if it imports none.

    Args:
        source: text of the problem file.
        path: where it lies; neighbours are the Python files in this folder and below.

    Raises:
        ProblemError: a file is missing, is no Python or too large, or a module is neither installed nor a neighbour.
    """
    bundle = _Bundle(path.parent, path.name)
    text = bundle.rename(source, path.name, None)
    if not bundle.texts:
        return source
    prefix = PREFIX + sha256(repr(sorted(bundle.texts.items())))[:8]
    modules = {prefix: (f"{prefix}/__init__.py", "")}
    for name, module in bundle.texts.items():
        modules[f"{prefix}.{name}"] = (f"{prefix}/{bundle.files[name]}", module.replace(_PLACEHOLDER, prefix))
    preamble = f'exec({_LOADER.read_text()!r}, {{"MODULES": {modules!r}}})'
    text = _with(preamble, text.replace(_PLACEHOLDER, prefix))
    if len(text) > LARGEST:
        raise ProblemError(
            f"{path.name} and the files that it imports have {len(text)} characters; {LARGEST} can travel: import less"
        )
    return text


def names_from_stars(source: str, path: Path) -> set[str]:
    """Names that ``from neighbour import *`` gives to the problem."""
    names: set[str] = set()
    for statement in statements(_parsed(source, path.name, path.name)):
        absolute = statement.resolved("") if statement.is_star else None
        file = _file_of(path.parent, absolute[0]) if absolute else None
        if file is not None:
            names |= {name for name in bound(_parsed(_read(file, path.name), file.name, path.name)) if name[0] != "_"}
    return names


def refuse_neighbours(source: str, path: Path) -> None:
    """Refuse a candidate that leans on files beside it; what is no Python is left to whoever loads it.

    Raises:
        InputError: it imports some.
    """
    try:
        names = [name for statement in statements(parse(source)) for name in statement.resolved("") or []]
    except (SyntaxError, ValueError):
        return
    files = [_file_of(path.parent, name) for name in names if name.partition(".")[0] not in sys.stdlib_module_names]
    neighbours = dict.fromkeys(str(file.relative_to(path.parent)) for file in files if file is not None)
    if neighbours:
        raise InputError(
            f"candidate file {path} imports {', '.join(neighbours)}: a candidate is one self-contained file, so put "
            "their code into it"
        )


def _with(preamble: str, text: str) -> str:
    """``text`` with ``preamble`` before the first statement that may use it; lines stay where they are, if they can."""
    for statement in parse(text).body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_text or is_future:
            continue
        return "\n".join(_inserted(preamble, text.split("\n"), statement))
    return text


def _inserted(preamble: str, lines: list[str], statement: ast.stmt) -> list[str]:
    decorators = [decorator.lineno for decorator in getattr(statement, "decorator_list", ())]
    at = min([statement.lineno, *decorators]) - 1
    above = lines[at - 1].strip() if at else "no line"
    if not isinstance(getattr(statement, "body", None), list) and not isinstance(statement, ast.Match):
        lines[at] = f"{preamble}; {lines[at]}"
    elif not above or above.startswith("#"):
        lines[at - 1] = f"{preamble}  {lines[at - 1]}".rstrip()
    else:
        lines.insert(at, preamble)  # the only case in which lines move
    return lines


def _file_of(root: Path, name: str) -> Path | None:
    """The file of the module ``name`` below ``root``: a module, a package, or a folder that is imported as one."""
    place = root.joinpath(*name.split("."))
    for file in (place / "__init__.py", place.with_name(place.name + ".py")):
        if file.is_file():
            return file
    is_folder = place.is_dir() and any(place.glob("*.py"))
    return place / "__init__.py" if is_folder and ("." in name or not _is_installed(name)) else None


def _is_installed(top: str) -> bool:
    if top in sys.modules:
        return True
    spec = importlib.util.find_spec(top)
    return spec is not None and spec.origin is not None  # a mere folder in the working folder has none


def _nowhere(file: str, statement: Statement, name: str) -> str:
    return f"{file} imports `{statement.shown}`, but in its folder there is no {name.replace('.', '/')}.py"


def _read(file: Path, problem: str) -> str:
    if not file.exists():
        return ""  # a folder without one is a package all the same
    try:
        if file.stat().st_size > LARGEST:
            raise ProblemError(
                f"{file.name}, which {problem} imports, has {file.stat().st_size} bytes; {LARGEST} can travel: "
                "have `inputs` make its data"
            )
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ProblemError(f"cannot read {file}, which {problem} imports: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ProblemError(f"{file.name}, which {problem} imports, is not Python: it is not UTF-8 text") from None


def _parsed(text: str, file: str, problem: str) -> ast.Module:
    try:
        return parse(text)
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ProblemError(f"{file}, which {problem} imports, is not Python: {reason}{line}") from error
