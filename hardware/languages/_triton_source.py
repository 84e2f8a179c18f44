"""What of a Triton candidate is compiled ahead: its list of launches, and the file without everything but its kernels.

Neither runs the file. The kernels keep their line numbers, because Triton's cache is keyed by them.
"""

import ast

import msgspec

from ...schemas import Diagnostic, KernelResources, Schema
from ..sources.native_source import Refused, module_literal, parsed

LAUNCHES = "TRITON_LAUNCHES"
MOST_LAUNCHES = 2048
"""So many are no mistake: DenseNet201 in training has 630, where no two layers are alike."""
KERNEL_MODULES = frozenset({"triton", "math", "__future__", "typing"})
"""Modules that kernels may import from; all else in the file stays unrun."""
DECORATORS = frozenset({"jit", "constexpr_function", "autotune", "heuristics"})
_PLAIN_CALLS = frozenset({"int", "float", "min", "max", "len", "tuple", "range", "bool", "abs"})


class Descriptor(Schema, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tensor descriptor made on the host over a contiguous tensor."""

    descriptor: str
    """Type of the elements, as Triton spells it."""
    shape: tuple[int, ...]
    block: tuple[int, ...]


class Launch(Schema, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One launch that a candidate says it will make."""

    kernel: str
    arguments: dict[str, bool | int | float | str | Descriptor | None]
    options: dict[str, bool | int | float | str | None] = {}


class Request(Schema, frozen=True, kw_only=True):
    """What to compile."""

    target: str
    launches: tuple[Launch, ...]
    kernels: str = ""
    """The file with nothing but its kernels."""
    parallel: int = 1
    """Launches that may be compiled at once."""


class Order(Schema, frozen=True, kw_only=True):
    """Asks the fork server for a child that compiles one candidate. Beside it travel: channel, parent-death socket,
    output."""

    scratch: str
    """Working folder of the child, empty; all that it can write."""
    seconds: int
    """Of processor time."""
    memory_bytes: int
    """Address space of each of its processes."""
    file_bytes: int
    niceness: int


class Result(Schema, frozen=True, kw_only=True):
    """What came of it."""

    kernels: tuple[KernelResources, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    archive: bytes = b""
    """What was compiled, as :func:`._triton_runtime.pack` packs it."""


def launches_of(source: str) -> tuple[Launch, ...] | None:
    """``TRITON_LAUNCHES`` of the candidate file ``source``; None if it has none.

    Raises:
        Refused: the file is not Python, or the list is not what docs/triton-candidates.md says.
    """
    value = module_literal(parsed(source), LAUNCHES)
    if value is None:
        return None
    try:
        launches = msgspec.convert(value, tuple[Launch, ...])
    except msgspec.ValidationError as error:
        raise Refused(f"{LAUNCHES} is wrong: {error}") from error
    if len(launches) > MOST_LAUNCHES:
        raise Refused(f"{LAUNCHES} has {len(launches)} launches; more than {MOST_LAUNCHES} are refused")
    return launches


def has_kernels(source: str) -> bool:
    """Whether the file defines a kernel anywhere.

    Raises:
        Refused: it is not Python.
    """
    tree = parsed(source)
    # Other packages call their decorators `jit`, too.
    return _imports_triton(tree) and any(isinstance(n, ast.FunctionDef) and _is_kernel(n) for n in ast.walk(tree))


def _imports_triton(tree: ast.Module) -> bool:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return any(name.partition(".")[0] == "triton" for name in names)


def kernels_only(source: str) -> str:
    """The file with every line blanked that neither is a kernel nor a constant or import that kernels can use.

    Raises:
        Refused: it is not Python.
    """
    tree = parsed(source)
    # Not splitlines(): it also splits at form feeds, where Python counts no line.
    lines = [line + "\n" for line in source.split("\n")]
    line_numbers: set[int] = set()
    defined_names: set[str] = set()
    for statement in tree.body:
        if _belongs(statement, defined_names):
            first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
            line_numbers |= set(range(first, (statement.end_lineno or first) + 1))
            defined_names |= set(_defined(statement))
        elif isinstance(statement, ast.Import) and (names := _for_kernels(statement)):
            # ``import torch, triton``: the rest of it stays unrun, as of every other line.
            lines[statement.lineno - 1] = ast.unparse(ast.Import(names=names)) + "\n"
            line_numbers.add(statement.lineno)
            defined_names |= {alias.asname or alias.name.split(".")[0] for alias in names}
    return "".join(line if number in line_numbers else "\n" for number, line in enumerate(lines, 1))


def _for_kernels(statement: ast.Import) -> list[ast.alias]:
    """Those of its modules that kernels may import from."""
    return [alias for alias in statement.names if alias.name.split(".")[0] in KERNEL_MODULES]


def _belongs(statement: ast.stmt, defined_names: set[str]) -> bool:
    if isinstance(statement, ast.Import):
        return len(_for_kernels(statement)) == len(statement.names)
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and (statement.module or "").split(".")[0] in KERNEL_MODULES
    if isinstance(statement, ast.FunctionDef):
        return _is_kernel(statement)
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        names = [target.id for target in _targets(statement) if isinstance(target, ast.Name)]
        return bool(names) and LAUNCHES not in names and _is_inert(statement.value, defined_names)
    return False


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(_last_name(decorator) in DECORATORS for decorator in function.decorator_list)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_inert(value: ast.expr, defined_names: set[str]) -> bool:
    """Whether evaluating it can only compute: literals, known names, and calls of Triton, math and a few built-ins."""
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id not in defined_names | _PLAIN_CALLS | {"True", "False", "None"}:
            return False
        if isinstance(node, ast.Lambda | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.comprehension):
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            return False
    return True


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return [target.id for target in _targets(statement) if isinstance(target, ast.Name)]
    return []
