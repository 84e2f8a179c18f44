"""Reads a problem file without running it."""

import ast
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from ...schemas import InputError, Problem, ProblemError, ProblemFormat, sha256
from .import_statements import bound
from .neighbours import bundled, names_from_stars, refuse_neighbours
from .parsing import parse

FUNCTION_NAMES = ("shapes", "inputs", "reference")
OPTIONAL_NAMES = ("backward", "finite_inputs", "tolerance", "published_tolerance")
"""What a problem of functions may set beside them, and may misspell: `times` is no misspelled `timed`."""
KERNELBENCH_NAMES = ("Model", "get_inputs")
_BOTH = "`Model`, an nn.Module, and get_inputs() (and get_init_inputs() where its constructor takes arguments)"
ENTRIES = ("kernel", "ModelNew")
"""What a candidate defines, one of them."""
SHIPPED = Path(__file__).parents[2] / "problems"
LARGEST_FILE = 1 << 20
"""Bytes. A problem is source code; data comes from its generator."""
LARGEST_CANDIDATE = 4 << 20
"""Bytes. What is generated for a network of 120 layers has 1.4 MB."""


def load_problem(path: Path | str) -> Problem:
    """The problem in the Python file at ``path``, its format told by the names that it defines.

    Raises:
        ProblemError: there is no such file, it is no Python, or it follows neither format.
    """
    path = Path(path)
    source = _read(path)
    tree = _parsed(source, path.name)
    kind = problem_format(bound(tree) | names_from_stars(source, path), path.name, modules_in(tree))
    if kind is ProblemFormat.function:
        _refuse_misspelled(tree, path.name)
    text = bundled(source, path)
    return Problem(name=_name(path), format=kind, source=text, sha256=sha256(text))


def load_candidate(path: Path) -> str:
    """The text of the candidate file at ``path``, which must be self-contained.

    Raises:
        InputError: it is no such file, it is too large, it is no text, or it imports a file beside it.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"candidate file {path} is no plain file; give a Python file")
        if path.exists() and path.stat().st_size > LARGEST_CANDIDATE:
            raise InputError(f"{path} has {path.stat().st_size} bytes; a candidate file may have {LARGEST_CANDIDATE}")
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"candidate file {path} does not exist{near_file(path)}") from error
    except IsADirectoryError as error:
        raise InputError(f"candidate file {path} is a folder; name the Python file in it") from error
    except OSError as error:
        raise InputError(f"candidate file {path} cannot be read: {error.strerror}; give a Python file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"candidate file {path} cannot be read as text: {error}; give a Python file with kernel(...) or ModelNew"
        ) from error
    refuse_neighbours(source, path)
    return source


def near_file(path: Path) -> str:
    """``; did you mean …?`` for the Python file with the name nearest to ``path``: a neighbour or a shipped problem."""
    for folder in (path.parent, SHIPPED):
        names = sorted(file.name for file in folder.glob("*.py") if not file.name.startswith("_"))
        if near := difflib.get_close_matches(path.with_suffix(".py").name, names, n=1, cutoff=0.75):
            return f"; did you mean {str(folder / near[0])!r}?"
    return ""


def missing_entry(source: str) -> str:
    """That the candidate ``source`` defines nothing that can be called, and which name may be meant; empty if it does.

    Nothing is said of what cannot be parsed.
    """
    try:
        names = bound(parse(source))
    except (SyntaxError, ValueError):
        return ""
    if names & {*ENTRIES}:
        return ""
    meant = next((text for entry in ENTRIES if (text := _meant(entry, names))), "")
    return f"it defines neither `{ENTRIES[0]}` nor `{ENTRIES[1]}`{meant}"


def problem_format(names: set[str], file: str, modules: Sequence[str] = ()) -> ProblemFormat:
    """Which contract a file follows that defines ``names``; ``file`` names it in messages, ``modules`` are its modules.

    Raises:
        ProblemError: it follows neither.
    """
    if "Model" in names and "reference" not in names:
        return _complete(ProblemFormat.kernelbench, KERNELBENCH_NAMES, names, file)
    if names & set(FUNCTION_NAMES):
        return _complete(ProblemFormat.function, FUNCTION_NAMES, names, file)
    if (modules or "get_inputs" in names) and not _meant("reference", names):
        raise ProblemError(f"{file} lacks `Model`{_meant_module(modules, names)}; a KernelBench file has {_BOTH}")
    raise ProblemError(
        f"{file} lacks `reference`{_meant('reference', names) or _meant('Model', names)}: define shapes, "
        "inputs(generator, ...) and reference(...), or a KernelBench file's Model and get_inputs()"
    )


def modules_in(tree: ast.Module) -> list[str]:
    """Classes of a file whose base is called ``Module`` or is such a class, in order."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
            names += [node.name] if {"Module", *names} & {*bases} else []
    return names


def _meant_module(modules: Sequence[str], names: set[str]) -> str:
    """Which class of a KernelBench file is to be called ``Model``: one that is nearly so, else the last module."""
    alike = difflib.get_close_matches("Model", modules or names, n=1) or modules[-1:]
    return f" (is `{alike[0]}` meant to be `Model`?)" if alike else ""


def _parsed(source: str, file: str) -> ast.Module:
    try:
        return parse(source)
    except (SyntaxError, ValueError) as error:
        place = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ProblemError(f"{file} is not Python: {text}{place}; give a Python file with a reference") from error


def _refuse_misspelled(tree: ast.Module, file: str) -> None:
    """Refuse a name that nothing in the file reads, and that is nearly one of :data:`OPTIONAL_NAMES`."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    assigned = {target.id for target in targets if isinstance(target, ast.Name)}
    for name in sorted(assigned - read - {*OPTIONAL_NAMES, *FUNCTION_NAMES}):
        if alike := difflib.get_close_matches(name, OPTIONAL_NAMES, n=1, cutoff=0.8):
            raise ProblemError(f"{file} sets `{name}`, which nothing reads: is it meant to be `{alike[0]}`?")


def _complete(kind: ProblemFormat, required: tuple[str, ...], names: set[str], file: str) -> ProblemFormat:
    missing = [name for name in required if name not in names]
    if missing:
        defined = ", ".join(name for name in required if name in names)
        raise ProblemError(
            f"{file} defines {defined} but lacks `{missing[0]}`{_meant(missing[0], names - set(required))}; a {kind} "
            f"problem needs {', '.join(required)}"
        )
    return kind


def _meant(missing: str, names: set[str]) -> str:
    """A hint at the name that may be a misspelling of the ``missing`` one; empty if none is like it."""
    alike = difflib.get_close_matches(missing, names, n=1)
    return f" (is `{alike[0]}` meant to be `{missing}`?)" if alike else ""


def _read(path: Path) -> str:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ProblemError(f"{path} is no plain file; give a Python file with a reference")
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; name the problem's Python file in it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ProblemError(f"there is no file {path}{near_file(path) or '; check the path'}") from None
    except OSError as error:
        raise ProblemError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST_FILE:
        raise ProblemError(f"{path} has {len(data)} bytes; a problem file may have {LARGEST_FILE}")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ProblemError(f"{path} is not Python: it is not UTF-8 text; give a Python file with a reference") from None


def _name(path: Path) -> str:
    name = re.sub(r"[^a-z0-9_]+", "_", path.stem.lower()).strip("_")
    return name or "problem"
