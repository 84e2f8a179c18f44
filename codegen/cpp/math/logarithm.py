"""log, log2, log1p: exponent and a mantissa in [sqrt(1/2), sqrt(2)), then a minimax polynomial of log(1 + f)."""

from __future__ import annotations

from .base import Level, Snippet

_POLYNOMIAL = """\
KS_INLINE float ks_log1p_cubic(float f) {  // (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]
  float p = -0x1.38b4ecp-4f;
  p = ks_fma(p, f, 0x1.055b5ep-3f);
  p = ks_fma(p, f, -0x1.0d8558p-3f);
  p = ks_fma(p, f, 0x1.22da2p-3f);
  p = ks_fma(p, f, -0x1.547242p-3f);
  p = ks_fma(p, f, 0x1.99a008p-3f);
  p = ks_fma(p, f, -0x1.000228p-2f);
  return ks_fma(p, f, 0x1.555554p-2f);
}
KS_INLINE float ks_log_special(float x, float y) {  // zero, negative, infinite; NaN comes through y
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  return x > 3.40282347e+38f ? x : y;
}
"""

_SPLIT = """\
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  int32_t i = (int32_t)ks_bits(scaled) - 0x3f3504f3;
  int32_t k = (i >> 23) - (x < 0x1p-126f ? 23 : 0);
  float f = ks_from_bits((uint32_t)(i & 0x7fffff) + 0x3f3504f3u) - 1.0f;
  f = x != x ? x : f;
  float n = (float)k;
"""

_LOG = f"""\
KS_INLINE float ks_log_accurate(float x) {{
{_SPLIT}\
  float q = ks_log1p_cubic(f);
  float s = f * f;
  float rest = ks_fma(q * f, s, n * -0x1.05c61p-29f);
  float y = ks_fma(-0.5f, s, rest) + f;
  y = ks_fma(n, 0x1.62e43p-1f, y);
  return ks_log_special(x, y);
}}
"""

_FAST_MANTISSA = """\
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  int32_t i = (int32_t)ks_bits(scaled) - 0x3f3504f3;
  float n = (float)((i >> 23) - (x < 0x1p-126f ? 23 : 0));
  float f = ks_from_bits((uint32_t)(i & 0x7fffff) + 0x3f3504f3u) - 1.0f;
  float p = 0x1.646a5p-4f;
  p = ks_fma(p, f, -0x1.2432c6p-3f);
  p = ks_fma(p, f, 0x1.317234p-3f);
  p = ks_fma(p, f, -0x1.538234p-3f);
  p = ks_fma(p, f, 0x1.98d82ap-3f);
  p = ks_fma(p, f, -0x1.000382p-2f);
  p = ks_fma(p, f, 0x1.5556d8p-2f);
  p = ks_fma(p, f, -0.5f);
  float y = ks_fma(p * f, f, f);
"""
"""The logarithm ``y`` of what is left of ``x`` between sqrt(1/2) and sqrt(2), beside 2 to the ``n``."""

_LOG_FAST = f"""\
KS_INLINE float ks_log_fast(float x) {{
{_FAST_MANTISSA}  y = ks_fma(n, 0x1.62e43p-1f, y);
  y = x > 0.0f ? y : (x == 0.0f ? -INFINITY : NAN);
  return x > 3.40282347e+38f ? x : y;
}}
"""

_LOG2 = f"""\
KS_INLINE float ks_log2_accurate(float x) {{
{_SPLIT}\
  float q = ks_log1p_cubic(f);
  float s = f * f;
  float rest = ks_fma(q * f, s, -0.5f * s);
  float p = f * 0x1.715476p+0f;  // f / log(2) in two parts, the sum with n as well
  float low = ks_fma(f, 0x1.715476p+0f, -p);
  low = ks_fma(f, 0x1.4ae0cp-26f, low);
  low = ks_fma(rest, 0x1.715476p+0f, low);
  float sum = n + p;
  float lost = p - (sum - n);
  return ks_log_special(x, sum + (lost + low));
}}
"""

_LOG2_FAST = f"""\
KS_INLINE float ks_log2_fast(float x) {{
{_FAST_MANTISSA}  y = ks_fma(y, 0x1.715476p+0f, n);
  y = x > 0.0f ? y : (x == 0.0f ? -INFINITY : NAN);
  return x > 3.40282347e+38f ? x : y;
}}
"""

_LOG1P = """\
KS_INLINE float ks_log1p_accurate(float x) {
  float u = 1.0f + x;
  int32_t i = (int32_t)ks_bits(u) - 0x3f3504f3;
  int32_t k = i >> 23;
  // (1 + x) 2^-k - 1 with one rounding; from 2^30 on the one is lost anyway and 2^-k would become subnormal
  float scale = ks_from_bits((uint32_t)(127 - (k > 30 ? 30 : k)) << 23);
  float near = ks_fma(x, scale, scale - 1.0f);
  float far = ks_from_bits((uint32_t)(i & 0x7fffff) + 0x3f3504f3u) - 1.0f;
  float f = k > 30 ? far : near;
  float n = (float)k;
  float q = ks_log1p_cubic(f);
  float s = f * f;
  float rest = ks_fma(q * f, s, n * -0x1.05c61p-29f);
  float y = ks_fma(-0.5f, s, rest) + f;
  y = ks_fma(n, 0x1.62e43p-1f, y);
  y = ks_log_special(u, y);
  y = x != x ? x : y;
  return std::fabs(x) < 1e-8f ? x : y;
}
"""

_SHARED: tuple[tuple[str, Level], ...] = (("log1p_cubic", "accurate"),)

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("log1p_cubic", "accurate"): Snippet(_POLYNOMIAL, 0.0, note="internal"),
    ("log", "accurate"): Snippet(_LOG, 0.9, _SHARED),
    ("log", "fast"): Snippet(_LOG_FAST, 3.0),
    ("log2", "accurate"): Snippet(_LOG2, 1.0, _SHARED),
    ("log2", "fast"): Snippet(_LOG2_FAST, 4.0),
    ("log1p", "accurate"): Snippet(_LOG1P, 1.5, _SHARED),
}
