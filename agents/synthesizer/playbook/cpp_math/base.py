"""What a C++ math function is made of: its text, what it needs, and how wrong it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PRELUDE", "Level", "Snippet"]

Level = Literal["libm", "accurate", "fast"]
"""`libm` calls std::, `accurate` stays under about two ulp on every input, `fast` gives up 1e-6 to 1e-5."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One function at one level."""

    code: str
    """C++ that defines `ks_<name>_<level>` for float (double overloads go through libm)."""
    ulp: float
    """Largest measured error against float64 in units of float's last place, over every finite result that is
    not subnormal; the tests hold it. Relative to the exact result unless `note` names an absolute bound."""
    needs: tuple[tuple[str, Level], ...] = ()
    """Functions that `code` calls."""
    note: str = ""
    """Where the function departs from libm: a bounded domain, an absolute instead of a relative error."""
    vectorises: bool = True
    """Whether compilers turn a `#pragma omp simd` loop over it into vector instructions."""


PRELUDE = """\
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
"""
