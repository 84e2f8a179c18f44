"""tanh, sigmoid, silu, erf, both gelus: what saturates, built on exp or on a rational function."""

from __future__ import annotations

from .base import Level, Snippet

__all__ = ["SNIPPETS"]

_TANH = """\
KS_INLINE float ks_tanh_accurate(float x) {
  float a = std::fabs(x);
  float s = x * x;
  float p = -0x1.75e1dcp-8f;
  p = ks_fma(p, s, 0x1.52269ep-6f);
  p = ks_fma(p, s, -0x1.b83c5ap-5f);
  p = ks_fma(p, s, 0x1.110726p-3f);
  p = ks_fma(p, s, -0x1.555532p-2f);
  float near = ks_fma(p * s, x, x);
  float e = ks_exp_accurate(a + a);
  float far = std::copysign(1.0f - 2.0f / (e + 1.0f), x);
  return a < 0.625f ? near : far;
}
"""

_TANH_FAST = """\
KS_INLINE float ks_tanh_fast(float x) {
  float c = x < -7.6f ? -7.6f : x;
  c = c > 7.6f ? 7.6f : c;
  float s = c * c;
  float p = 3.67842244e-06f;
  p = ks_fma(p, s, 0.00222501857f);
  p = ks_fma(p, s, 0.122458614f);
  p = ks_fma(p, s, 0.999998093f);
  float q = 0.000136620307f;
  q = ks_fma(q, s, 0.0208339971f);
  q = ks_fma(q, s, 0.455778569f);
  q = ks_fma(q, s, 1.0f);
  return (c * p) / q;
}
"""

_SIGMOID = """\
KS_INLINE float ks_sigmoid_accurate(float x) {
  float e = ks_exp_accurate(-std::fabs(x));  // never above 1: small results keep their digits
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
"""

_SILU = """\
KS_INLINE float ks_silu_accurate(float x) {
  float e = ks_exp_accurate(-std::fabs(x));
  return (x < 0.0f ? x * e : x) / (1.0f + e);
}
"""

_SIGMOID_FAST = """\
KS_INLINE float ks_sigmoid_fast(float x) { return 1.0f / (1.0f + ks_exp_fast(-x)); }
"""

_SILU_FAST = """\
KS_INLINE float ks_silu_fast(float x) { return x / (1.0f + ks_exp_fast(-x)); }
"""

_ERF_PARTS = """\
KS_INLINE float ks_erf_near(float x) {  // erf(x), |x| < 0.93
  float s = x * x;
  float p = -0x1.3827a8p-11f;
  p = ks_fma(p, s, 0x1.46c2c4p-8f);
  p = ks_fma(p, s, -0x1.b676eap-6f);
  p = ks_fma(p, s, 0x1.ce19080p-4f);
  p = ks_fma(p, s, -0x1.8126dcp-2f);
  p = ks_fma(p, s, 0x1.06eba6p-3f);
  return ks_fma(p, x, x);
}
KS_INLINE float ks_erfc_far(float a) {  // 1 - erf(a), a >= 0.92, to float's last place of 1
  a = a > 12.0f ? 12.0f : a;
  float p = -0x1.78dd84p-17f;
  p = ks_fma(p, a, 0x1.527c66p-12f);
  p = ks_fma(p, a, -0x1.dd6cd6p-9f);
  p = ks_fma(p, a, 0x1.85515ep-6f);
  p = ks_fma(p, a, -0x1.b32574p-4f);
  p = ks_fma(p, a, -0x1.45328ep-1f);
  p = ks_fma(p, a, -0x1.20ef1cp+0f);
  return ks_exp_accurate(p * a);
}
"""

_ERF = """\
KS_INLINE float ks_erf_accurate(float x) {
  float a = std::fabs(x);
  float far = std::copysign(1.0f - ks_erfc_far(a), x);
  return a < 0.927f ? ks_erf_near(x) : far;
}
"""

_ERF_FAST = """\
KS_INLINE float ks_erf_fast(float x) {
  float s = x * x;
  float p = 0.000693322218f;
  p = ks_fma(p, s, 0.0422451757f);
  p = ks_fma(p, s, 0.159090608f);
  p = ks_fma(p, s, 1.12837052f);
  float q = 0.00884273835f;
  q = ks_fma(q, s, 0.0956571549f);
  q = ks_fma(q, s, 0.474237353f);
  q = ks_fma(q, s, 1.0f);
  float y = (x * p) / q;
  return std::fabs(x) < 3.6f ? y : (x != x ? x : std::copysign(1.0f, x));
}
"""

_GELU = """\
KS_INLINE float ks_gelu_accurate(float x) {  // x Phi(x), without the cancellation of 1 + erf for negative x
  float t = x * 0x1.6a09e6p-1f;
  float tail = 0.5f * ks_erfc_far(std::fabs(t));
  float far = x < 0.0f ? tail : 1.0f - tail;
  float near = ks_fma(0.5f, ks_erf_near(t), 0.5f);
  return x * (std::fabs(t) < 0.927f ? near : far);
}
"""

_GELU_FAST = """\
KS_INLINE float ks_gelu_fast(float x) {
  float h = 0.5f * x;
  return ks_fma(h, ks_erf_fast(x * 0x1.6a09e6p-1f), h);
}
"""


def _gelu_tanh(level: Level) -> str:
    """0.5 (1 + tanh(u)) is sigmoid(2u): one division, and no cancellation for negative x."""
    return f"""\
KS_INLINE float ks_gelu_tanh_{level}(float x) {{
  float inner = 2.0f * 0.797884561f * ks_fma(0.044715f * x * x, x, x);
  return x * ks_sigmoid_{level}(inner);
}}
"""


_EXP_A: tuple[tuple[str, Level], ...] = (("exp", "accurate"),)
_EXP_F: tuple[tuple[str, Level], ...] = (("exp", "fast"),)
_PARTS: tuple[tuple[str, Level], ...] = (("erf_parts", "accurate"),)

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("tanh", "accurate"): Snippet(_TANH, 1.4, _EXP_A),
    ("tanh", "fast"): Snippet(_TANH_FAST, 37.0),
    ("sigmoid", "accurate"): Snippet(_SIGMOID, 2.3, _EXP_A),
    ("sigmoid", "fast"): Snippet(_SIGMOID_FAST, 75.0, _EXP_F, note="x > -87; 0 below -88.3"),
    ("silu", "accurate"): Snippet(_SILU, 3.0, _EXP_A, note="x > -85"),
    ("silu", "fast"): Snippet(_SILU_FAST, 95.0, _EXP_F, note="x > -85; 0 below -88"),
    ("erf_parts", "accurate"): Snippet(_ERF_PARTS, 0.0, _EXP_A, note="internal"),
    ("erf", "accurate"): Snippet(_ERF, 1.3, _PARTS),
    ("erf", "fast"): Snippet(_ERF_FAST, 135.0),
    ("gelu", "accurate"): Snippet(_GELU, 1.7, _PARTS, note="absolute, relative to |x| for x < 0"),
    ("gelu", "fast"): Snippet(_GELU_FAST, 65.0, (("erf", "fast"),), note="absolute, relative to |x|"),
    ("gelu_tanh", "accurate"): Snippet(
        _gelu_tanh("accurate"), 2.3, (("sigmoid", "accurate"),), note="absolute, relative to |x| for x < 0"
    ),
    ("gelu_tanh", "fast"): Snippet(
        _gelu_tanh("fast"), 35.0, (("sigmoid", "fast"),), note="absolute, relative to |x| for x < 0"
    ),
}
