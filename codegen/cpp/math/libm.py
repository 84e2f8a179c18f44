"""Every function at level `libm`: the formula PyTorch uses, over std::, for float and double alike."""

from __future__ import annotations

import math

from .base import Level, Scale, Snippet

_DIRECT = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)

_ONE = {
    **{name: f"std::{name}(x)" for name in _DIRECT},
    "sigmoid": "T(1) / (T(1) + std::exp(-x))",
    "silu": "x / (T(1) + std::exp(-x))",
    "gelu": "T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)))",
    "gelu_tanh": "T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)))",
}

TWO_ARGUMENTS = {"pow": "std::pow(x, y)", "atan2": "std::atan2(x, y)", "hypot": "std::hypot(x, y)"}
"""Functions of (x, y), with their std:: formula."""


def _define(name: str, formula: str, arguments: str) -> str:
    lines = [
        f"KS_INLINE {kind} ks_{name}_libm({', '.join(f'{kind} {a}' for a in arguments)}) "
        f"{{ using T = {kind}; (void)sizeof(T); return {formula}; }}"
        for kind in ("float", "double")
    ]
    return "\n".join(lines) + "\n"


def _unary(name: str, formula: str) -> Snippet:
    scale: Scale = "argument" if name.startswith("gelu") else "result"
    low = -85.0 if name == "silu" else -math.inf
    ulp = 7.0 if name == "lgamma" else 4.0
    return Snippet(_define(name, formula, "x"), ulp, scale=scale, low=low)


SNIPPETS: dict[tuple[str, Level], Snippet] = {
    **{(name, "libm"): _unary(name, text) for name, text in _ONE.items()},
    **{(name, "libm"): Snippet(_define(name, text, "xy"), 2.0) for name, text in TWO_ARGUMENTS.items()},
}
