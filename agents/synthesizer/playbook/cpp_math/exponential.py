"""exp, exp2, expm1: reduction by powers of two, minimax polynomials (Lawson fits in 40 digits) on half a binade."""

from __future__ import annotations

from .base import Level, Snippet

__all__ = ["SNIPPETS"]

# 0x1.8p23 + n keeps the integer n in the low bits of the float: rounding and conversion in one addition.
_EXP = """\
KS_INLINE float ks_exp_accurate(float x) {
  const bool gone = x < -104.0f;  // masked scores: exp(0) instead, since underflow is slow
  x = gone ? 0.0f : x;            // comparisons are false for NaN, which therefore stays
  x = x > 89.0f ? 89.0f : x;
  float t = ks_fma(x, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  int32_t k = (int32_t)ks_bits(t) - 0x4b400000;
  float r = ks_fma(n, -0x1.62e43p-1f, x);
  r = ks_fma(n, 0x1.05c61p-29f, r);
  float p = 0x1.6a234ep-10f;
  p = ks_fma(p, r, 0x1.123a6cp-7f);
  p = ks_fma(p, r, 0x1.5558f4p-5f);
  p = ks_fma(p, r, 0x1.55549p-3f);
  p = ks_fma(p, r, 0x1.fffffcp-2f);
  p = ks_fma(p, r, 1.0f);
  p = ks_fma(p, r, 1.0f);
  int32_t h = k >> 1;  // two factors: 2^k alone leaves the exponent's range at both ends
  float a = ks_from_bits((uint32_t)(h + 127) << 23);
  float b = ks_from_bits((uint32_t)(k - h + 127) << 23);
  return gone ? 0.0f : (p * a) * b;
}
"""

_EXP_FAST = """\
KS_INLINE float ks_exp_fast(float x) {  // the scale itself reaches the ends: 2^-127 reads as 0, 2^128 as inf
  x = x < -88.0f ? -88.0f : x;
  x = x > 88.6f ? 88.6f : x;
  float t = ks_fma(x, 0x1.715476p+0f, 0x1.8p23f);
  float r = ks_fma(t - 0x1.8p23f, -0x1.62e43p-1f, x);
  float p = 0x1.522418p-5f;
  p = ks_fma(p, r, 0x1.571d94p-3f);
  p = ks_fma(p, r, 0x1.0006bcp-1f);
  p = ks_fma(p, r, 1.0f);
  p = ks_fma(p, r, 1.0f);
  return p * ks_from_bits((ks_bits(t) + 127u) << 23);
}
"""

_EXP2 = """\
KS_INLINE float ks_exp2_accurate(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  float t = x + 0x1.8p23f;
  float r = x - (t - 0x1.8p23f);
  int32_t k = (int32_t)ks_bits(t) - 0x4b400000;
  float p = 0x1.41fb2cp-13f;
  p = ks_fma(p, r, 0x1.5f3f32p-10f);
  p = ks_fma(p, r, 0x1.3b2d5p-7f);
  p = ks_fma(p, r, 0x1.c6aee6p-5f);
  p = ks_fma(p, r, 0x1.ebfbdcp-3f);
  p = ks_fma(p, r, 0x1.62e43p-1f);
  p = ks_fma(p, r, 1.0f);
  int32_t h = k >> 1;
  float a = ks_from_bits((uint32_t)(h + 127) << 23);
  float b = ks_from_bits((uint32_t)(k - h + 127) << 23);
  return (p * a) * b;
}
"""

_EXP2_FAST = """\
KS_INLINE float ks_exp2_fast(float x) {
  x = x < -127.0f ? -127.0f : x;
  x = x > 128.0f ? 128.0f : x;
  float t = x + 0x1.8p23f;
  float r = x - (t - 0x1.8p23f);
  float p = 0x1.3a0224p-7f;
  p = ks_fma(p, r, 0x1.c9fdeep-5f);
  p = ks_fma(p, r, 0x1.ec038p-3f);
  p = ks_fma(p, r, 0x1.62e12ap-1f);
  p = ks_fma(p, r, 1.0f);
  return p * ks_from_bits((ks_bits(t) + 127u) << 23);
}
"""

_EXPM1 = """\
KS_INLINE float ks_expm1_accurate(float x) {
  float c = x < -18.0f ? -18.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float t = ks_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  float r = ks_fma(n, -0x1.62e43p-1f, c);
  r = ks_fma(n, 0x1.05c61p-29f, r);
  float p = 0x1.a032c8p-13f;
  p = ks_fma(p, r, 0x1.6d7298p-10f);
  p = ks_fma(p, r, 0x1.11118ap-7f);
  p = ks_fma(p, r, 0x1.5554bp-5f);
  p = ks_fma(p, r, 0x1.555554p-3f);
  p = ks_fma(p, r, 0.5f);
  float q = ks_fma(p * r, r, r);
  float s = ks_from_bits((ks_bits(t) + 126u) << 23);  // 2^(n-1), doubled at the end so that 2^128 overflows
  float y = ks_fma(s, q, s - 0.5f);
  y = y + y;
  return std::fabs(x) < 1e-7f ? x : y;  // keeps -0 and subnormals
}
"""

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("exp", "accurate"): Snippet(_EXP, 0.9),
    ("exp", "fast"): Snippet(_EXP_FAST, 75.0, note="-87 < x < 88.3; 0 and inf beyond"),
    ("exp2", "accurate"): Snippet(_EXP2, 1.0),
    ("exp2", "fast"): Snippet(_EXP2_FAST, 45.0, note="-126 < x < 127.4; 0 and inf beyond"),
    ("expm1", "accurate"): Snippet(_EXPM1, 1.5),
}
