"""Pointwise ATen operators as scalar expressions: one table, one function for each kind of operator."""

from collections.abc import Callable
from functools import lru_cache

from ...schemas import Arg, Expr, Node
from ..ir.build import (
    Unsupported,
    apply,
    binary,
    cast,
    compare,
    compute_dtype,
    const,
    is_float,
    number,
    promote,
    round_to,
    select,
    size_value,
)
from ..ir.scalar import Scalar

Operand = Callable[[Arg], Scalar]
"""Gives the scalar of an argument at the element in question; its dtype is the argument's compute dtype."""

Rank = Callable[[Arg], tuple[str, int]]
"""dtype and category (2 tensor, 1 zero-dimensional tensor, 0 number) of an argument, for type promotion."""

_UNARY = {
    name: name
    for name in [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "lgamma",
    ]
}
_ROUNDING = {"floor", "ceil", "trunc", "round"}
_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}
_ARITHMETIC = {"add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "atan2", "fmod", "hypot"}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_BITWISE = {"bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor"}
_SHIFTS = {"bitwise_left_shift": "shl", "bitwise_right_shift": "shr", "__lshift__": "shl", "__rshift__": "shr"}
_COPIES = {"clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "_conj", "positive"}
_NAMED = (
    "neg abs relu sign isnan isinf isfinite logical_not bitwise_not where clamp clamp_min clamp_max pow div remainder "
    "floor_divide rsub _to_copy copy masked_fill fill square convert_element_type leaky_relu signbit"
)
_SPECIAL = {*_NAMED.split(), "ordered", "unordered"}
ORDERED, UNORDERED = "ks.ordered", "ks.unordered"
"""A float as an integer that is larger where the float is, NaN the largest; and back."""


@lru_cache(maxsize=4096)
def base_name(target: str) -> str:
    """``aten.add.Tensor`` to ``add``."""
    parts = target.split(".")
    is_known = parts[0] in ("aten", "prims") or target in (ORDERED, UNORDERED)
    return parts[1] if len(parts) > 1 and is_known else ""


@lru_cache(maxsize=4096)
def is_pointwise(target: str) -> bool:
    """Whether the operator computes every element from the elements at the same place."""
    name = base_name(target)
    groups = (_UNARY, _ROUNDING, _COMPARE, _ARITHMETIC, _LOGICAL, _BITWISE, _SHIFTS, _COPIES, _SPECIAL)
    return bool(name) and any(name in group for group in groups)


def pointwise(node: Node, operand: Operand, rank: Rank) -> Scalar:
    """The value of one element of ``node``.

    Raises:
        Unsupported: this combination of operator, overload and dtypes is left to PyTorch.
    """
    name = base_name(node.target)
    dtype = compute_dtype(node.values[0].dtype)
    if name in _COPIES:
        return operand(node.args[0])
    if name in _UNARY:
        value = cast(operand(node.args[0]), dtype)
        return (_tanh_of_softplus(value) if name == "tanh" else None) or apply(_UNARY[name], dtype, value)
    if name in _ROUNDING:
        return _rounding(node, name, operand, dtype)
    if name in _COMPARE:
        common = compute_dtype(promote([rank(arg) for arg in node.args[:2]]))
        return compare(name, common, operand(node.args[0]), operand(node.args[1]))
    if name in _ARITHMETIC:
        return _arithmetic(node, name, operand, dtype)
    if name in _LOGICAL:
        return binary(_LOGICAL[name], "bool", operand(node.args[0]), operand(node.args[1]))
    if name in _BITWISE:
        op = _LOGICAL[name.replace("bitwise", "logical")] if dtype == "bool" else _BITWISE[name]
        return binary(op, dtype, operand(node.args[0]), operand(node.args[1]))
    if name in _SHIFTS:
        return binary(_SHIFTS[name], dtype, operand(node.args[0]), operand(node.args[1]))
    return _special(node, name, operand, rank, dtype)


_SATURATED = (20.0, 40.0)
"""From where to where softplus may begin to return its argument: tanh is 1 there in float64, too, and the square of the
exponential is still a float32."""


def _tanh_of_softplus(value: Scalar) -> Scalar | None:
    """tanh(log1p(e^x)) as w / (w + 2) with w = e^x (e^x + 2), which Mish multiplies x by; None if ``value`` is no such.

    All terms are positive, so nothing cancels: as exact as the three functions, with one of them. Mish twice over 2 GB,
    written in another order, took an H200 3.2 ms, and torch.compile 2.2.
    """
    x, threshold, logarithm = None, _SATURATED[0], value
    if value.op == "select" and value.args[0].op == "gt" and value.args[0].args[1].op == "const":
        (x, bound), logarithm = value.args[0].args, value.args[2]
        threshold = bound.data
        if value.args[1] != x or not _SATURATED[0] <= threshold <= _SATURATED[1]:
            return None
    if logarithm.op != "log1p" or logarithm.args[0].op != "exp":
        return None
    (exponential,) = logarithm.args
    if x is not None and exponential.args[0] != x:
        return None
    (x,) = exponential.args
    dtype = value.dtype
    two = const(2, dtype)
    product = binary("mul", dtype, exponential, binary("add", dtype, exponential, two))
    ratio = binary("div", dtype, product, binary("add", dtype, product, two))
    return select(compare("gt", dtype, x, const(threshold, dtype)), const(1, dtype), ratio, dtype)


def _rounding(node: Node, name: str, operand: Operand, dtype: str) -> Scalar:
    if node.kwargs.get("decimals") or len(node.args) > 1:
        raise Unsupported(node.name, "rounding to decimals")
    value = operand(node.args[0])
    return apply(name, dtype, value) if is_float(dtype) else value


def _arithmetic(node: Node, name: str, operand: Operand, dtype: str) -> Scalar:
    a, b = operand(node.args[0]), operand(node.args[1])
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else None)
    if alpha is not None and number(alpha) != 1:
        b = binary("mul", dtype, b, operand(alpha))
    if dtype == "bool" and name == "sub":
        raise Unsupported(node.name, "subtraction of booleans")
    if name == "fmod" and not is_float(dtype):
        return binary("trunc_rem", dtype, a, b)
    if name in ("fmax", "fmin") and not is_float(dtype):
        name = {"fmax": "maximum", "fmin": "minimum"}[name]
    return binary(name, dtype, a, b)


def _special(node: Node, name: str, operand: Operand, rank: Rank, dtype: str) -> Scalar:
    args = node.args
    match name:
        case "neg" | "abs" | "sign":
            value = cast(operand(args[0]), dtype)
            return value if name == "abs" and dtype in ("bool", "uint8") else apply(name, dtype, value)
        case "relu":
            value = operand(args[0])
            return binary("maximum", dtype, value, const(0, dtype))
        case "leaky_relu":
            value = operand(args[0])
            slope = operand(args[1]) if len(args) > 1 else const(0.01, dtype)
            return select(
                compare("gt", dtype, value, const(0, dtype)), value, binary("mul", dtype, value, slope), dtype
            )
        case "square":
            value = cast(operand(args[0]), dtype)
            return binary("mul", dtype, value, value)
        case "isnan" | "isinf" | "isfinite" | "signbit":
            value = operand(args[0])
            if is_float(value.dtype):
                return apply(name, "bool", value)
            if name == "signbit":
                return compare("lt", value.dtype, value, const(0, value.dtype))
            return const(name == "isfinite", "bool")
        case "ordered":
            return apply(name, "int64", cast(operand(args[0]), "float32"))
        case "unordered":
            return apply(name, "float32", cast(operand(args[0]), "int64"))
        case "logical_not":
            return apply("not", "bool", cast(operand(args[0]), "bool"))
        case "bitwise_not":
            return apply("not" if dtype == "bool" else "bit_not", dtype, operand(args[0]))
        case "where":
            if len(args) != 3:
                raise Unsupported(node.name, "where with one argument")
            return select(operand(args[0]), operand(args[1]), operand(args[2]), dtype)
        case "masked_fill":
            return select(operand(args[1]), operand(args[2]), operand(args[0]), dtype)
        case "fill":
            return cast(operand(args[1]), dtype)
        case "copy":
            return round_to(operand(args[1]), node.values[0].dtype)
        case "clamp" | "clamp_min" | "clamp_max":
            return _clamp(node, name, operand, dtype)
        case "_to_copy" | "convert_element_type":
            return round_to(operand(args[0]), node.values[0].dtype)
        case "rsub":
            alpha = node.kwargs.get("alpha", args[2] if len(args) > 2 else 1)
            return binary("sub", dtype, operand(args[1]), binary("mul", dtype, operand(args[0]), operand(alpha)))
        case "pow":
            return _power(node, operand, dtype)
        case "div" | "remainder" | "floor_divide":
            return _division(node, name, operand, dtype)
    raise Unsupported(node.name, f"no rule for {node.target}")


def _clamp(node: Node, name: str, operand: Operand, dtype: str) -> Scalar:
    bounds: list[Arg] = [node.kwargs.get("min"), node.kwargs.get("max")]
    for place, arg in enumerate(node.args[1:3]):
        bounds[place + (name == "clamp_max")] = arg
    value = cast(operand(node.args[0]), dtype)
    # clamp keeps NaN, as `maximum` and `minimum` do.
    if bounds[0] is not None:
        value = binary("maximum", dtype, value, operand(bounds[0]))
    if bounds[1] is not None:
        value = binary("minimum", dtype, value, operand(bounds[1]))
    return value


def _power(node: Node, operand: Operand, dtype: str) -> Scalar:
    exponent = number(node.args[1])
    base = cast(operand(node.args[0]), dtype)
    if exponent is not None and float(exponent).is_integer() and 0 < exponent <= 4:
        value = base
        for _ in range(int(exponent) - 1):
            value = binary("mul", dtype, value, base)
        return value
    if not is_float(dtype):
        raise Unsupported(node.name, "integer power")
    if exponent == 0.5:
        return apply("sqrt", dtype, base)
    if exponent == -0.5:
        return apply("rsqrt", dtype, base)
    if exponent == -1:
        return apply("reciprocal", dtype, base)
    return binary("pow", dtype, base, operand(node.args[1]))


def _division(node: Node, name: str, operand: Operand, dtype: str) -> Scalar:
    mode = "floor" if name == "floor_divide" else node.kwargs.get("rounding_mode")
    a, b = cast(operand(node.args[0]), dtype), cast(operand(node.args[1]), dtype)
    if dtype == "bool":
        raise Unsupported(node.name, "division of booleans")
    if name == "remainder":
        return binary("remainder", dtype, a, b)
    if mode is None:
        return binary("div", dtype, a, b)
    if mode == "floor":
        return binary("floor_div", dtype, a, b)
    return apply("trunc", dtype, binary("div", dtype, a, b)) if is_float(dtype) else binary("trunc_div", dtype, a, b)


def literal_operand(arg: Arg, node: str) -> Scalar:
    """The scalar of an argument that is no tensor."""
    value = number(arg)
    if value is not None:
        kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
        return const(value, kind)
    if isinstance(arg, Expr):
        return size_value(arg.value)
    raise Unsupported(node, f"argument {arg!r}")


def literal_rank(arg: Arg) -> tuple[str, int]:
    """Promotion category of an argument that is no tensor: float, integer or boolean number."""
    value = number(arg)
    if isinstance(arg, Expr):
        return ("int64", 0) if size_value(arg.value).op != "size" else ("float32", 0)
    if isinstance(value, bool):
        return "bool", 0
    return ("int64", 0) if isinstance(value, int) else ("float32", 0)
