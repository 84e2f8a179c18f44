"""Prints scalar expressions as Triton."""

from ..ir.build import is_float
from ..ir.scalar import Scalar

TYPES = {
    "float32": "tl.float32", "float64": "tl.float64", "int64": "tl.int64", "int32": "tl.int32", "int16": "tl.int16",
    "int8": "tl.int8", "uint8": "tl.uint8", "bool": "tl.int1", "bfloat16": "tl.bfloat16", "float16": "tl.float16",
}  # fmt: skip
"""Triton's type of a dtype."""

POINTERS = {
    "float32": "fp32", "float64": "fp64", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8",
    "bool": "i1", "bfloat16": "bf16", "float16": "fp16",
}  # fmt: skip
"""What a pointer to a dtype points to, as launches are described."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "and": "&", "or": "|", "xor": "^", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<",
    "shr": ">>", "trunc_div": "//", "trunc_rem": "%",
}  # fmt: skip
_FAST = {"exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2", "sqrt": "tl.sqrt", "rsqrt": "tl.rsqrt",
         "sigmoid": "tl.sigmoid", "sin": "tl.sin", "cos": "tl.cos"}  # fmt: skip
"""Functions with an approximation in hardware: relative errors up to some 1e-6."""
_HELPERS = {"sigmoid": "ks_sigmoid", "erf": "tl.erf", "abs": "tl.abs", "floor": "tl.floor", "ceil": "tl.ceil",
            "round": "libdevice.rint", "sign": "ks_sign"}  # fmt: skip
_TYPED = ("float64", "int64", "int16", "int8", "uint8")
"""dtypes whose constants must say what they are: Triton takes a number for fp32 or int32."""


class TritonNeeds:
    """What generated kernels refer to beyond their arguments."""

    def __init__(self, math: str, has_subnormals: bool = False) -> None:
        self.math = math
        self.has_subnormals = has_subnormals
        """Whether something decides on exponentials, so that subnormal ones must not be zero."""
        self.helpers: set[str] = set()
        self.floats: dict[str, str] = {}
        """Numbers that the host wrapper computes from sizes: their names by Python expression."""

    def helper(self, name: str) -> str:
        """A function of the prelude."""
        self.helpers.add(name)
        return name

    def function(self, op: str, dtype: str) -> str:
        """The function that computes ``op``."""
        if self.math == "fast" and dtype == "float32" and op in _FAST:
            name = _FAST[op]
        elif op == "exp" and dtype == "float32" and self.has_subnormals:
            name = "ks_exp"
        elif op in _HELPERS:
            name = _HELPERS[op]
        elif op == "tanh" and dtype == "float32":
            name = "ks_tanh"
        else:
            name = f"libdevice.{op}"
        return self.helper(name) if name.startswith("ks_") else name


def number_text(value: float | int | bool, dtype: str) -> str:
    """A number as Python writes it."""
    if dtype == "bool":
        return str(bool(value))
    if not is_float(dtype):
        return str(int(value))
    x = float(value)
    return f'float("{x}")' if x != x or x in (float("inf"), float("-inf")) else repr(x)


def typed(value: float | int | bool, dtype: str) -> str:
    """A number as a Triton value of its dtype."""
    return f"tl.full((), {number_text(value, dtype)}, {TYPES[dtype]})"


def constant(value: float | int | bool, dtype: str) -> str:
    """A constant in an expression: bare where Triton gives it the right type by itself."""
    return typed(value, dtype) if dtype in _TYPED or dtype == "bool" else number_text(value, dtype)


def operation(node: Scalar, args: list[str], needs: TritonNeeds) -> str:
    """The Triton expression of an operation on already printed operands.

    Raises:
        KeyError: there is none.
    """
    op, dtype = node.op, node.dtype
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    values = [typed(a.data, a.dtype) if a.op == "const" else t for a, t in zip(node.args, args, strict=True)]
    match op:
        case "cast":
            return f"tl.cast({values[0]}, {TYPES[dtype]})"
        case "select":
            return f"tl.where({', '.join(values)})"
        case "not":
            return f"({values[0]} == 0)"
        case "neg" | "bit_not":
            return f"({'-' if op == 'neg' else '~'}{values[0]})"
        case "round_bfloat16" | "round_float16":
            return f"tl.cast(tl.cast({values[0]}, {TYPES[op[6:]]}), tl.float32)"
        case "maximum" | "minimum" if is_float(dtype):
            return f"tl.{op}({values[0]}, {values[1]}, propagate_nan=tl.PropagateNan.ALL)"
        case "maximum" | "minimum":
            return f"tl.{op}({values[0]}, {values[1]})"
        case "fmax" | "fmin":
            return f"tl.{'maximum' if op == 'fmax' else 'minimum'}({values[0]}, {values[1]})"
        case "reciprocal":
            return f"(1.0 / {values[0]})"
        case "isnan" | "isinf" | "isfinite" | "signbit":
            return f"{needs.helper(f'ks_{op}')}({values[0]})"
        case "remainder" | "floor_div":
            kind = "float" if is_float(dtype) else "int"
            return f"{needs.helper(f'ks_{op}_{kind}')}({', '.join(values)})"
    return f"{needs.function(op, dtype)}({', '.join(values)})"


_PRELUDE = {
    # To 2.1 units in the last place, where CUDA's has 1.8 and branches: over 2 GB 1.25 ms instead of 1.58 (H200).
    "ks_tanh": (
        "def ks_tanh(x):\n"
        "    a = tl.abs(x)\n"
        "    e = libdevice.exp(-2.0 * a)\n"
        "    large = (1.0 - e) / (1.0 + e)\n"
        "    s = x * x\n"
        "    p = ((0.016437719 * s - 0.052671883) * s + 0.13320726) * s - 0.33332947\n"
        "    return libdevice.copysign(tl.where(a > 0.55, large, p * s * a + a), x)"
    ),
    # The library's gives 0 for subnormal results, the hardware's approximation does not.
    "ks_exp": "def ks_exp(x):\n    return tl.where(x < -87.0, tl.exp(x), libdevice.exp(x))",
    "ks_sigmoid": "def ks_sigmoid(x):\n    return 1.0 / (1.0 + libdevice.exp(-x))",
    "ks_sign": "def ks_sign(x):\n    return tl.cast(x > 0, x.dtype) - tl.cast(x < 0, x.dtype)",
    "ks_isnan": "def ks_isnan(x):\n    return x != x",
    "ks_isinf": 'def ks_isinf(x):\n    return tl.abs(x) == float("inf")',
    "ks_isfinite": 'def ks_isfinite(x):\n    return tl.abs(x) < float("inf")',
    "ks_signbit": "def ks_signbit(x):\n    return (x < 0) | ((x == 0) & (1.0 / x < 0))",
    "ks_remainder_float": (
        "def ks_remainder_float(a, b):\n    r = libdevice.fmod(a, b)\n"
        "    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)"
    ),
    "ks_floor_div_float": (
        "def ks_floor_div_float(a, b):\n    r = libdevice.fmod(a, b)\n    q = (a - r) / b\n"
        "    q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1.0, q)\n    q = libdevice.rint(q)\n"
        "    return tl.where(b == 0, a / b, q)"
    ),
    "ks_remainder_int": (
        "def ks_remainder_int(a, b):\n    r = a % b\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)"
    ),
    "ks_floor_div_int": (
        "def ks_floor_div_int(a, b):\n    q = a // b\n    r = a - q * b\n"
        "    return tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)"
    ),
    # Of what is infinite nothing is left.
    "ks_rest": 'def ks_rest(x, part):\n    return tl.where(tl.abs(part) < float("inf"), x - part, 0.0)',
    "ks_wrap": (
        "def ks_wrap(i, n):\n    i = tl.where(i < 0, i + n, i)\n    return tl.minimum(tl.maximum(i, 0), n - 1)"
    ),
    "ks_add": "def ks_add(a, b):\n    return a + b",
    "ks_mul": "def ks_mul(a, b):\n    return a * b",
    "ks_max": "def ks_max(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "ks_min": "def ks_min(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    # Products of a part of a row may overflow where the product of the row is 0 by then: 0 times infinity. The
    # product in order stays 0; it is NaN after numbers that are not finite alone.
    "ks_running_product": (
        "def ks_running_product(block, before):\n"
        "    result = before * tl.associative_scan(block, 0, ks_mul)\n"
        "    if tl.max((result != result).to(tl.int32), 0) > 0:\n"
        "        infinite = (tl.abs(result) == float('inf')).to(tl.int32)\n"
        "        broken = tl.cumsum((block - block != 0).to(tl.int32) + infinite, 0)\n"
        "        lost = tl.where(before - before == 0, (result != result).to(tl.int32), 0)\n"
        "        result = tl.where(lost > broken, 0.0, result)\n"
        "    return result"
    ),
    "ks_argmax": (
        "def ks_argmax(x, i, y, j):\n"
        "    same = (x == y) | ((x != x) & (y != y))\n"
        "    first = (x > y) | ((x != x) & (y == y)) | (same & (i < j))\n"
        "    return tl.where(first, x, y), tl.where(first, i, j)"
    ),
    "ks_argmin": (
        "def ks_argmin(x, i, y, j):\n"
        "    same = (x == y) | ((x != x) & (y != y))\n"
        "    first = (x < y) | ((x != x) & (y == y)) | (same & (i < j))\n"
        "    return tl.where(first, x, y), tl.where(first, i, j)"
    ),
    "ks_search": (
        "def ks_search(table, length, value, RIGHT: tl.constexpr):\n"
        "    low = tl.cast(value != value, tl.int64) * 0\n"
        "    high = low + length\n"
        "    left = tl.cast(length, tl.int64)\n"
        "    while left > 0:\n"
        "        middle = (low + high) // 2\n"
        "        inside = low < high\n"
        "        element = tl.load(table + middle, mask=inside, other=0)\n"
        "        after = inside & ((element > value) == 0) if RIGHT else inside & ((element >= value) == 0)\n"
        "        low = tl.where(after, middle + 1, low)\n"
        "        high = tl.where(inside & (after == 0), middle, high)\n"
        "        left = left // 2\n"
        "    return low"
    ),
}


def prelude(helpers: set[str]) -> str:
    """The helper functions that are used."""
    return "\n\n\n".join(f"@triton.jit\n{_PRELUDE[name]}" for name in _PRELUDE if name in helpers)
