"""C++ math functions that are exact or correctly rounded: rounding, division, roots, extrema, remainders.

The level does not matter here: there is one version, called `accurate`. Semantics are PyTorch's.
"""

from __future__ import annotations

import re

from .base import Level, Snippet


def _float(name: str, expression: str) -> str:
    return (
        "\n".join(
            f"KS_INLINE {kind} ks_{name}_accurate({kind} x) {{ return {expression.replace('T', kind)}; }}"
            for kind in ("float", "double")
        )
        + "\n"
    )


def _both(text: str) -> str:
    return "".join(re.sub(r"\bT\b", kind, text) for kind in ("float", "double"))


def _same(name: str, expression: str, arguments: str = "T a, T b") -> str:
    return f"template <typename T> KS_INLINE T ks_{name}_accurate({arguments}) {{ return {expression}; }}\n"


def _extreme(name: str, better: str, wins: str) -> str:
    """``a`` where it is better, or where ``wins`` is NaN.

    Two choices, one after the other: GCC vectorises no chain of such that are joined in one condition, and a maximum
    of four numbers took twenty times as long.
    """
    first = f"const T best = a {better} b ? a : b;"
    return (
        f"template <typename T> KS_INLINE T ks_{name}_accurate(T a, T b) "
        f"{{ {first} return {wins} != {wins} ? a : best; }}\n"
    )


_POWI = """\
template <int N, typename T> KS_INLINE T ks_powi_accurate(T x) {  // x^N by repeated squaring, as 1 / x^-N below zero
  constexpr unsigned steps = N < 0 ? -(unsigned)N : (unsigned)N;
  T y = T(1);
  T square = x;
  for (unsigned n = steps; n != 0; n >>= 1) {
    if (n & 1u) y = y * square;
    square = square * square;
  }
  return N < 0 ? T(1) / y : y;
}
"""

# The quotient of floats is up to 2^277. Each step of an estimate in double takes its upper 51 bits off, and the fma
# leaves no error: what is left has fewer bits than a double. The last estimate can be one too far; the sign tells.
_FMOD_STEP = "  r = ks_fma(-std::trunc(r * inverse), y, r);\n"
_FMOD = f"""\
KS_INLINE float ks_fmod_accurate(float a, float b) {{
  double x = std::fabs((double)a), y = std::fabs((double)b);
  double inverse = 1.0 / y, r = x;
{6 * _FMOD_STEP}  r = r < 0.0 ? r + y : r;
  r = r >= y ? r - y : r;
  float m = std::copysign((float)r, a);
  m = y == (double)INFINITY ? a : m;
  return x == (double)INFINITY ? NAN : m;
}}
KS_INLINE double ks_fmod_accurate(double a, double b) {{ return std::fmod(a, b); }}
template <typename T> KS_INLINE T ks_fmod_accurate(T a, T b) {{ return (T)(a % b); }}
"""

_FMOD_SHORT = """\
KS_INLINE float ks_fmod_short(float a, float b) {  // exact for |a / b| < 2^22
  float x = std::fabs(a), y = std::fabs(b);
  float r = ks_fma(-std::trunc(x / y), y, x);
  r = r < 0.0f ? r + y : r;
  r = r >= y ? r - y : r;
  r = std::copysign(r, a);
  return y == INFINITY ? (x == INFINITY ? NAN : a) : r;
}
KS_INLINE double ks_fmod_short(double a, double b) { return std::fmod(a, b); }
template <typename T> KS_INLINE T ks_fmod_short(T a, T b) { return (T)(a % b); }
"""


def _remainder(level: Level) -> str:
    return _both(
        f"""\
KS_INLINE T ks_remainder_{level}(T a, T b) {{  // the sign of b, as in Python
  T m = ks_fmod_{level}(a, b);
  T shift = std::copysign(T(1), m) * b < T(0) ? b : T(0);
  return m != T(0) ? m + shift : m;
}}
"""
    ) + (
        f"template <typename T> KS_INLINE T ks_remainder_{level}(T a, T b) "
        "{ T m = (T)(a % b); return ((m != 0) & ((b < 0) != (m < 0))) ? (T)(m + b) : m; }\n"
    )


def _floor_div(level: Level) -> str:
    return _both(
        f"""\
KS_INLINE T ks_floor_div_{level}(T a, T b) {{
  T m = ks_fmod_{level}(a, b);
  T q = (a - m) / b;
  T shift = std::copysign(T(1), m) * b < T(0) ? T(1) : T(0);
  q = m != T(0) ? q - shift : q;
  T f = std::floor(q);
  f = q - f > T(0.5) ? f + T(1) : f;
  f = q != T(0) ? f : std::copysign(T(0), a / b);
  return b == T(0) ? a / b : f;
}}
"""
    ) + (
        f"template <typename T> KS_INLINE T ks_floor_div_{level}(T a, T b) "
        "{ T q = (T)(a / b); return ((a % b != 0) & ((a < 0) != (b < 0))) ? (T)(q - 1) : q; }\n"
    )


_FMOD_NEED: tuple[tuple[str, Level], ...] = (("fmod", "accurate"),)

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("abs", "accurate"): Snippet(_same("abs", "x < T(0) ? -x : x + T(0)", "T x"), 0.0),
    ("ceil", "accurate"): Snippet(_float("ceil", "std::ceil(x)"), 0.0),
    ("floor", "accurate"): Snippet(_float("floor", "std::floor(x)"), 0.0),
    ("round", "accurate"): Snippet(_float("round", "std::nearbyint(x)"), 0.0, note="half to even"),
    ("trunc", "accurate"): Snippet(_float("trunc", "std::trunc(x)"), 0.0),
    ("sqrt", "accurate"): Snippet(_float("sqrt", "std::sqrt(x)"), 0.5),
    ("rsqrt", "accurate"): Snippet(_float("rsqrt", "T(1) / std::sqrt(x)"), 1.5),
    ("reciprocal", "accurate"): Snippet(_float("reciprocal", "T(1) / x"), 0.5),
    ("powi", "accurate"): Snippet(_POWI, 4.0, note="ks_powi_accurate<N>(x), |N| <= 8"),
    ("maximum", "accurate"): Snippet(_extreme("maximum", ">", "a"), 0.0, note="NaN if either is"),
    ("minimum", "accurate"): Snippet(_extreme("minimum", "<", "a"), 0.0, note="NaN if either is"),
    ("fmax", "accurate"): Snippet(_extreme("fmax", ">", "b"), 0.0, note="the number if one is NaN"),
    ("fmin", "accurate"): Snippet(_extreme("fmin", "<", "b"), 0.0, note="the number if one is NaN"),
    ("relu", "accurate"): Snippet(_same("relu", "x < T(0) ? T(0) : x", "T x"), 0.0, note="keeps NaN"),
    ("fmod", "accurate"): Snippet(_FMOD, 0.0),
    ("fmod", "short"): Snippet(_FMOD_SHORT, 0.0, note="|a / b| < 2^22 for float"),
    ("remainder", "accurate"): Snippet(_remainder("accurate"), 0.5, _FMOD_NEED),
    ("remainder", "short"): Snippet(_remainder("short"), 0.5, (("fmod", "short"),), note="|a / b| < 2^22 for float"),
    ("floor_div", "accurate"): Snippet(_floor_div("accurate"), 0.0, _FMOD_NEED),
}
