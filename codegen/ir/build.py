"""Constructors of scalar expressions that keep ATen's dtype semantics."""

from ...schemas import Arg, SpecialFloat
from .poly import Poly, poly
from .scalar import Scalar

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
SUPPORTED = (*FLOATS, *INTEGERS, "bool")
"""dtypes that generated code handles; everything else stays with PyTorch."""

_RANK = {name: i for i, name in enumerate(("bool", "uint8", "int8", "int16", "int32", "int64"))}


class Unsupported(Exception):
    """A node that generated code cannot compute; ``node`` is left to PyTorch."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(f"{node}: {why}")
        self.node = node


def compute_dtype(dtype: str) -> str:
    """dtype in which values of a storage dtype are computed: half precision in float32, as PyTorch does on the CPU."""
    return "float32" if dtype in ("bfloat16", "float16") else dtype


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating type."""
    return dtype in FLOATS


def number(value: Arg) -> float | int | bool | None:
    """A literal argument as a Python number; None if it is none."""
    if isinstance(value, SpecialFloat):
        return float(value.value)
    return value if isinstance(value, bool | int | float) else None


def const(value: float | int | bool, dtype: str) -> Scalar:
    """A constant of a compute dtype."""
    if dtype == "bool":
        return Scalar("const", dtype, data=bool(value))
    return Scalar("const", dtype, data=float(value) if is_float(dtype) else int(value))


def index(p: Poly) -> Scalar:
    """An index expression as an int64 value."""
    values = [atom for monomial, _ in p.terms for atom in monomial if isinstance(atom, tuple) and atom[0] == "value"]
    if len(p.terms) == 1 and len(values) == 1 and p.terms[0] == ((values[0],), 1):
        inner: Scalar = values[0][1]
        return inner
    return const(p.constant, "int64") if p.constant is not None else Scalar("index", "int64", polys=(p,))


def cast(value: Scalar, dtype: str) -> Scalar:
    """Convert to a compute dtype, as ``static_cast`` does; to bool by comparing with zero."""
    if value.dtype == dtype:
        return value
    if value.op == "const" and not (is_float(value.dtype) and not is_float(dtype) and dtype != "bool"):
        return const(value.data, dtype)
    if dtype == "bool":
        return Scalar("ne", "bool", (value, const(0, value.dtype)))
    return Scalar("cast", dtype, (value,))


def apply(op: str, dtype: str, *args: Scalar) -> Scalar:
    """An operation; nothing is folded but what is exact."""
    return Scalar(op, dtype, args)


def binary(op: str, dtype: str, a: Scalar, b: Scalar) -> Scalar:
    """An arithmetic operation with both operands in ``dtype``."""
    a, b = cast(a, dtype), cast(b, dtype)
    if op == "mul" and dtype != "bool":
        if b.op == "const" and b.data == 1:
            return a
        if a.op == "const" and a.data == 1:
            return b
    if dtype == "bool":
        op = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}.get(op, op)
    return apply(op, dtype, a, b)


def compare(op: str, dtype: str, a: Scalar, b: Scalar) -> Scalar:
    """A comparison with both operands in ``dtype``."""
    return apply(op, "bool", cast(a, dtype), cast(b, dtype))


def select(condition: Scalar, a: Scalar, b: Scalar, dtype: str) -> Scalar:
    """``condition ? a : b`` in ``dtype``."""
    return apply("select", dtype, cast(condition, "bool"), cast(a, dtype), cast(b, dtype))


def load(buffer: str, dtype: str, offset: Poly) -> Scalar:
    """An element of a buffer with storage ``dtype``, converted to its compute dtype."""
    return Scalar("load", compute_dtype(dtype), polys=(offset,), data=(buffer, dtype))


def round_to(value: Scalar, dtype: str) -> Scalar:
    """Convert to a storage dtype as an explicit cast does: half precision rounds, and is computed in float32 again."""
    if dtype in ("bfloat16", "float16"):
        return apply(f"round_{dtype}", "float32", cast(value, "float32"))
    return cast(value, dtype)


def promote(operands: list[tuple[str, int]]) -> str:
    """ATen's result dtype of operands ``(dtype, category)``: 2 tensor with dimensions, 1 without, 0 Python number."""
    by_category = {2: "", 1: "", 0: ""}
    for dtype, category in operands:
        by_category[category] = _wider(by_category[category], dtype)
    return _combine(by_category[2], _combine(by_category[1], by_category[0]))


def _combine(higher: str, lower: str) -> str:
    """A category that ranks lower changes the dtype only if its kind is higher (c10's ``combine_categories``)."""
    if not higher or not lower or is_float(higher):
        return higher or lower
    return _wider(higher, lower) if higher == "bool" or is_float(lower) else higher


def _kind(dtype: str) -> int:
    return -1 if not dtype else 2 if is_float(dtype) else 1 if dtype in INTEGERS else 0


def _wider(a: str, b: str) -> str:
    if not a or _kind(b) > _kind(a):
        return b
    if _kind(a) > _kind(b) or a == b:
        return a
    if _kind(a) == 2:
        order = ("float16", "bfloat16", "float32", "float64")
        return "float32" if {a, b} == {"float16", "bfloat16"} else max(a, b, key=order.index)
    if "uint8" in (a, b) and "int8" in (a, b):
        return "int16"
    return max(a, b, key=lambda name: _RANK[name])


def size_value(text: str) -> Scalar:
    """A symbolic number of the graph: an index where it is an integer expression, else a float from the host."""
    try:
        return index(poly(text))
    except ValueError:
        return Scalar("size", "float64", data=text)
