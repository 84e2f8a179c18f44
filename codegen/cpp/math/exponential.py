"""exp, exp2, expm1: reduction by powers of two, minimax polynomials (Lawson fits in 40 digits) on half a binade."""

from __future__ import annotations

from .base import Level, Snippet, horner

# 0x1.8p23 + n keeps the integer n in the low bits of the float: rounding and conversion in one addition.
EXP_OF_REST = f"""\
{horner("p", "r", "0x1.6a234ep-10f 0x1.123a6cp-7f 0x1.5558f4p-5f 0x1.55549p-3f 0x1.fffffcp-2f 1.0f 1.0f")}\
"""
"""``p = exp(r)`` for what an exponential leaves once its power of two is taken out, half of ln 2 at most."""

_EXP = (
    """\
KS_INLINE float ks_exp_accurate(float x) {
  const bool gone = x < -104.0f;  // masked scores: exp(0) instead, since underflow is slow
  x = gone ? 0.0f : x;            // comparisons are false for NaN, which therefore stays
  x = x > 89.0f ? 89.0f : x;
  float t = ks_fma(x, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  int32_t k = (int32_t)ks_bits(t) - 0x4b400000;
  float r = ks_fma(n, -0x1.62e43p-1f, x);
  r = ks_fma(n, 0x1.05c61p-29f, r);
"""
    + EXP_OF_REST
    + """\
  int32_t h = k >> 1;  // two factors: 2^k alone leaves the exponent's range at both ends
  float a = ks_from_bits((uint32_t)(h + 127) << 23);
  float b = ks_from_bits((uint32_t)(k - h + 127) << 23);
  return gone ? 0.0f : (p * a) * b;
}
"""
)

_EXP_DOWN = (
    """\
KS_INLINE float ks_exp_down_accurate(float x) {  // of distances from a maximum: 0 for subnormal results
  float c = x < -87.33f ? -87.33f : x;
  c = c > 89.0f ? 89.0f : c;
  float t = ks_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  float r = ks_fma(n, -0x1.62e43p-1f, c);
  r = ks_fma(n, 0x1.05c61p-29f, r);
"""
    + EXP_OF_REST
    + """\
  float y = p * ks_from_bits((ks_bits(t) + 127u) << 23);
  return x < -87.33f ? 0.0f : y;
}
"""
)


def _exp_fast(doubled: bool) -> str:
    """Five coefficients, all but the first fitted, and one power of two, so that results below 2^-126 are 0.

    ``doubled``: 2^(n-1) twice, so that results above 2^127.5 are numbers, too.
    """
    p, bias, low = ("(p + p)", 126, "-87.33f") if doubled else ("p", 127, "-88.0f")
    return f"""\
  float c = ks_clamp(x, {low}, 88.8f);
  float t = ks_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  float r = ks_fma(n, -0x1.62e43p-1f, c);
  r = ks_fma(n, 0x1.05c61p-29f, r);
{horner("p", "r", "0x1.0fa1fep-7f 0x1.573a24p-5f 0x1.555a7cp-3f 0x1.fffdc6p-2f 0x1.fffff6p-1f 1.0f")}\
  float y = {p} * ks_from_bits((ks_bits(t) + {bias}u) << 23);
"""


_EXP_FAST = f"""\
KS_INLINE float ks_exp_fast(float x) {{
{_exp_fast(doubled=True)}\
  return x != x ? x : y;
}}
"""

_EXP_PART = f"""\
KS_INLINE float ks_exp_part(float x) {{  // for sums with 1: NaN comes out as a number, 2^127.5 as infinity
{_exp_fast(doubled=False)}\
  return y;
}}
"""

_EXP2 = f"""\
KS_INLINE float ks_exp2_accurate(float x) {{
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  float t = x + 0x1.8p23f;
  float r = x - (t - 0x1.8p23f);
  int32_t k = (int32_t)ks_bits(t) - 0x4b400000;
{horner("p", "r", "0x1.41fb2cp-13f 0x1.5f3f32p-10f 0x1.3b2d5p-7f 0x1.c6aee6p-5f 0x1.ebfbdcp-3f 0x1.62e43p-1f 1.0f")}\
  int32_t h = k >> 1;
  float a = ks_from_bits((uint32_t)(h + 127) << 23);
  float b = ks_from_bits((uint32_t)(k - h + 127) << 23);
  return (p * a) * b;
}}
"""

_EXP2_FAST = f"""\
KS_INLINE float ks_exp2_fast(float x) {{
  float c = ks_clamp(x, -126.0f, 128.6f);
  float t = c + 0x1.8p23f;
  float r = c - (t - 0x1.8p23f);
{horner("p", "r", "0x1.5bd898p-10f 0x1.3ce8cp-7f 0x1.c6b6dcp-5f 0x1.ebf9c2p-3f 0x1.62e42ap-1f 1.0f")}\
  float y = (p + p) * ks_from_bits((ks_bits(t) + 126u) << 23);
  return x != x ? x : y;
}}
"""

_EXPM1 = f"""\
KS_INLINE float ks_expm1_accurate(float x) {{
  float c = x < -18.0f ? -18.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float t = ks_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  float r = ks_fma(n, -0x1.62e43p-1f, c);
  r = ks_fma(n, 0x1.05c61p-29f, r);
{horner("p", "r", "0x1.a032c8p-13f 0x1.6d7298p-10f 0x1.11118ap-7f 0x1.5554bp-5f 0x1.555554p-3f 0.5f")}\
  float q = ks_fma(p * r, r, r);
  float s = ks_from_bits((ks_bits(t) + 126u) << 23);  // 2^(n-1), doubled at the end so that 2^128 overflows
  float y = ks_fma(s, q, s - 0.5f);
  y = y + y;
  return std::fabs(x) < 1e-7f ? x : y;  // keeps -0 and subnormals
}}
"""

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("exp", "accurate"): Snippet(_EXP, 0.9),
    ("exp", "fast"): Snippet(_EXP_FAST, 3.0, note="0 below -86.9", low=-86.9),
    ("exp_down", "accurate"): Snippet(_EXP_DOWN, 0.9, note="0 below -87.3", low=-87.3, high=88.3),
    ("exp_part", "fast"): Snippet(_EXP_PART, 0.0, note="internal"),
    ("exp2", "accurate"): Snippet(_EXP2, 1.0),
    ("exp2", "fast"): Snippet(_EXP2_FAST, 3.0, note="0 below -125.5", low=-125.4),
    ("expm1", "accurate"): Snippet(_EXPM1, 1.5),
}
