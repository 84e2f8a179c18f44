"""Prints scalar expressions as C++."""

from collections.abc import Callable

from ..ir.build import is_float
from ..ir.poly import Atom, Poly
from ..ir.printing import text_poly
from ..ir.scalar import Scalar
from .math import ERROR_ULP, symbol

CTYPE = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
    "int8": "int8_t", "uint8": "uint8_t", "bool": "bool", "bfloat16": "uint16_t", "float16": "_Float16",
}  # fmt: skip
"""C++ type of a compute dtype."""

STORED = {**CTYPE, "bool": "uint8_t"}
"""C++ type of a storage dtype: loops over ``bool`` in memory do not vectorise."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "and": "&", "or": "|", "xor": "^", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<",
    "shr": ">>", "trunc_div": "/", "trunc_rem": "%",
}  # fmt: skip
_MATH = {name for name, _ in ERROR_ULP}
_WRAPPING = {"add", "sub", "mul"}
_UNSIGNED = {"int64": "uint64_t", "int32": "uint32_t"}
"""Integers wrap around in PyTorch; in C++ what signed ones do then is undefined, and compilers rely on it."""

Text = Callable[[Scalar], str]


class Needs:
    """What the generated text refers to beyond its arguments: math functions and helpers."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.math: set[tuple[str, str]] = set()
        self.helpers: set[str] = set()
        self.lookups: set[str] = set()
        self.floats: dict[str, str] = {}
        """Arguments that the host wrapper computes from sizes: their names by Python expression."""

    def function(self, name: str) -> str:
        """The C++ name of a math function at the wanted level."""
        self.math.add((name, self.level))
        return symbol(name, self.level)  # type: ignore[arg-type]

    def helper(self, name: str) -> str:
        """A helper of the prelude."""
        self.helpers.add(name)
        return name


def ctype(dtype: str) -> str:
    """C++ type in which a compute dtype is held."""
    return CTYPE[dtype]


def constant(value: float | int | bool, dtype: str) -> str:
    """A literal of a compute dtype."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return f"INT64_C({value})" if dtype == "int64" and abs(int(value)) > 2**31 - 1 else str(int(value))
    suffix = "f" if dtype == "float32" else ""
    number = float(value)
    if number != number:
        return f"({ctype(dtype)})NAN"
    if number in (float("inf"), float("-inf")):
        return f"({'-' if number < 0 else ''}({ctype(dtype)})INFINITY)"
    text = f"{number!r}{suffix}"
    return f"({text})" if number < 0 else text


def index_text(p: Poly, value: Text) -> str:
    """An index polynomial as C++; run-time values in it are printed by ``value``."""
    return text_poly(p, lambda atom: _atom(atom, value))


def _atom(atom: Atom, value: Text) -> str:
    if isinstance(atom, str):
        return atom
    if atom[0] == "value":
        return value(atom[1])
    if atom[0] in ("max", "min"):
        a, b = (index_text(part, value) for part in atom[1:])
        return f"ks_{atom[0]}<int64_t>({a}, {b})"
    return value(Scalar("quotient", "int64", polys=atom[1:], data=atom[0][0]))


def quotient_text(quotient: Scalar, value: Text) -> str:
    """A quotient or remainder of index polynomials."""
    a, b = (index_text(part, value) for part in quotient.polys)
    return f"(({a}) {quotient.data} ({b}))"


def operation(node: Scalar, args: list[str], needs: Needs) -> str:
    """The C++ expression of an operation on already printed operands."""
    op, dtype = node.op, node.dtype
    if op in _WRAPPING and dtype in _UNSIGNED:
        unsigned = _UNSIGNED[dtype]
        return f"({ctype(dtype)})(({unsigned}){args[0]} {_INFIX[op]} ({unsigned}){args[1]})"
    if op == "neg" and dtype in _UNSIGNED:
        return f"({ctype(dtype)})(0 - ({_UNSIGNED[dtype]}){args[0]})"
    if op in _INFIX:
        narrow = dtype in ("int32", "int16", "int8", "uint8") and op in (*_WRAPPING, "shl", "shr")
        text = f"({args[0]} {_INFIX[op]} {args[1]})"
        return f"({ctype(dtype)}){text}" if narrow else text
    if op == "cast":
        # GCC makes vectors of a truth value's conversion to int32 and of that to others, not of both at once.
        through = "(int32_t)" if node.args[0].dtype == "bool" and dtype not in ("bool", "int32") else ""
        return f"({ctype(dtype)}){through}{args[0]}"
    if op == "select":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op == "not":
        return f"(!{args[0]})"
    if op in ("neg", "bit_not"):
        return f"({'-' if op == 'neg' else '~'}{args[0]})"
    if op in ("round_bfloat16", "round_float16"):
        return f"{needs.helper(f'ks_{op}')}({args[0]})"
    if op in ("isnan", "isinf", "isfinite", "signbit"):
        return f"{needs.helper(f'ks_{op}')}({args[0]})"
    if op in ("ordered", "unordered"):
        return f"{needs.helper(f'ks_{op}')}({args[0]})"
    if op == "sign":
        return f"{needs.helper('ks_sign')}({args[0]})"
    if op in ("maximum", "minimum") and not is_float(dtype):
        return f"ks_{op[:3]}<{ctype(dtype)}>({args[0]}, {args[1]})"
    if op in ("maximum", "minimum") and any(arg.op == "const" and arg.data == arg.data for arg in node.args):
        value, bound = args if node.args[1].op == "const" else args[::-1]
        return f"{needs.helper('ks_at_least' if op == 'maximum' else 'ks_at_most')}<{ctype(dtype)}>({value}, {bound})"
    if op == "abs" and not is_float(dtype):
        return f"{needs.helper('ks_abs_int')}<{ctype(dtype)}, {_UNSIGNED.get(dtype, 'uint32_t')}>({args[0]})"
    if op in ("remainder", "floor_div") and not is_float(dtype):
        return f"{needs.helper(f'ks_{op}_int')}<{ctype(dtype)}>({', '.join(args)})"
    if op in _MATH:
        return f"{needs.function(op)}({', '.join(args)})"
    raise KeyError(f"no C++ for {op} on {dtype}")


def load_text(buffer: str, dtype: str, offset: str, needs: Needs) -> str:
    """An element of a buffer in its compute dtype."""
    element = f"{buffer}[{offset}]"
    if dtype == "bool":
        return f"({element} != 0)"
    if dtype == "bfloat16":
        return f"{needs.helper('ks_from_bfloat16')}({element})"
    return f"(float){element}" if dtype == "float16" else element


def store_text(dtype: str, value: str, needs: Needs) -> str:
    """A computed value as what is stored."""
    if dtype == "bfloat16":
        return f"{needs.helper('ks_to_bfloat16')}({value})"
    return f"(_Float16){value}" if dtype == "float16" else value
