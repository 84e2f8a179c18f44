"""What a C++ math function consists of: its text, the functions it calls, and its error bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Level = Literal["libm", "accurate", "fast", "short"]
"""`libm` calls std::, `accurate` stays under two ulp (three where there is a quotient), `fast` under about four (six
for erf) and takes results next to zero as zero, `short` holds for moderate arguments only: its reductions leave out
what large ones need."""

Scale = Literal["result", "argument", "one"]
"""What an error is relative to: the exact result; for negative arguments the argument (x Phi(x), whose small results
cancel out of 1 + erf in PyTorch as well); or 1 (sine and cosine next to their zeros)."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One function at one level."""

    code: str
    """C++ that defines `ks_<name>_<level>` for float (double overloads go through libm)."""
    ulp: float
    """Bound on the error against float64 in units of float's last place, over every finite result that is not
    subnormal; docs/cpp-math.md has what was measured, the tests hold it."""
    needs: tuple[tuple[str, Level], ...] = ()
    """Functions that `code` calls."""
    note: str = ""
    """Where the function departs from libm, for people; `internal` for parts of others."""
    scale: Scale = "result"
    """What `ulp` is relative to."""
    low: float = -math.inf
    high: float = math.inf
    """Arguments between which `ulp` holds; infinities are included."""


def horner(name: str, x: str, coefficients: str) -> str:
    """C++ that sets ``name`` to a polynomial of ``x``; the coefficient of the highest power comes first."""
    first, *others = coefficients.split()
    return "".join([f"  float {name} = {first};\n", *(f"  {name} = ks_fma({name}, {x}, {c});\n" for c in others)])


PRELUDE = """\
// Leaves Bessel functions and their like out of libstdc++'s <cmath>: reading them takes half the time of all headers.
#define _GLIBCXX_BITS_SPECFUN_H 1
#include <cmath>
#include <cstdint>
#include <cstring>
#define KS_INLINE static inline __attribute__((always_inline, unused))
// One rounding where the target has the instruction; a libm call per lane would undo the vector loop.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
KS_INLINE float ks_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KS_INLINE double ks_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
KS_INLINE float ks_fma(float a, float b, float c) { return a * b + c; }
KS_INLINE double ks_fma(double a, double b, double c) { return a * b + c; }
#endif
KS_INLINE uint32_t ks_bits(float x) { uint32_t u; std::memcpy(&u, &x, sizeof u); return u; }
KS_INLINE float ks_from_bits(uint32_t u) { float x; std::memcpy(&x, &u, sizeof x); return x; }
KS_INLINE uint64_t ks_bits(double x) { uint64_t u; std::memcpy(&u, &x, sizeof u); return u; }
KS_INLINE double ks_from_bits64(uint64_t u) { double x; std::memcpy(&x, &u, sizeof x); return x; }
// Clamps by integers, one instruction each: of two comparisons of floats GCC makes branches, and masks of those. NaN
// comes out as a number.
KS_INLINE float ks_cap(float x, float high) {  // x >= 0
  const uint32_t u = ks_bits(x), most = ks_bits(high);
  return ks_from_bits(u < most ? u : most);
}
KS_INLINE float ks_clamp(float x, float low, float high) {  // low < 0 < high
  const int32_t i = (int32_t)ks_bits(ks_cap(x, low)), most = (int32_t)ks_bits(high);
  return ks_from_bits((uint32_t)(i < most ? i : most));
}
"""
