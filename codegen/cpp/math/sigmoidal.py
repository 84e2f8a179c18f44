"""C++ for tanh, sigmoid, silu, erf and both gelus, built on exp or on a rational function."""

from __future__ import annotations

from .base import Level, Snippet, horner
from .exponential import EXP_OF_REST

_TANH = f"""\
KS_INLINE float ks_tanh_accurate(float x) {{
  float a = std::fabs(x);
  float s = x * x;
{horner("p", "s", "-0x1.75e1dcp-8f 0x1.52269ep-6f -0x1.b83c5ap-5f 0x1.110726p-3f -0x1.555532p-2f")}\
  float near = ks_fma(p * s, a, a);
  float e = ks_exp_accurate(a + a);
  float far = 1.0f - 2.0f / (e + 1.0f);
  return std::copysign(a < 0.625f ? near : far, x);  // of -0 too
}}
"""

_TANH_FAST = f"""\
KS_INLINE float ks_tanh_fast(float x) {{
  float c = ks_cap(std::fabs(x), 9.02f);
  float s = c * c;
{horner("p", "s", "0x1.c9a428p-27f 0x1.595574p-16f 0x1.c9f864p-9f 0x1.120442p-3f 1.0f")}\
{horner("q", "s", "0x1.a0b884p-21f 0x1.5841e8p-12f 0x1.a7df2ap-6f 0x1.de576ap-2f 1.0f")}\
  float y = std::copysign(ks_cap((c * p) / q, 1.0f), x);  // rounding alone would carry it past 1
  return x != x ? x : y;
}}
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
KS_INLINE float ks_sigmoid_fast(float x) {
  float y = 1.0f / (1.0f + ks_exp_part(-x));
  return x != x ? x : y;
}
"""

_SILU_FAST = """\
KS_INLINE float ks_silu_fast(float x) { return x / (1.0f + ks_exp_part(-x)); }
"""

_ERF_PARTS = (
    f"""\
KS_INLINE float ks_erf_near(float x) {{  // erf(x), |x| < 0.93
  float s = x * x;
{horner("p", "s", "-0x1.3827a8p-11f 0x1.46c2c4p-8f -0x1.b676eap-6f 0x1.ce19080p-4f -0x1.8126dcp-2f 0x1.06eba6p-3f")}\
  return ks_fma(p, x, x);
}}
KS_INLINE float ks_erfc_far(float a) {{  // 1 - erf(a), a >= 0.92, to float's last place of 1
  a = a > 9.19f ? 9.19f : a;  // 2^-126 there: the exponential needs one power of two
{
        horner(
            "g",
            "a",
            "-0x1.78dd84p-17f 0x1.527c66p-12f -0x1.dd6cd6p-9f 0x1.85515ep-6f -0x1.b32574p-4f -0x1.45328ep-1f "
            "-0x1.20ef1cp+0f",
        )
    }\
  float x = g * a;
  float t = ks_fma(x, 0x1.715476p+0f, 0x1.8p23f);
  float r = ks_fma(t - 0x1.8p23f, -0x1.62e43p-1f, x);
"""
    + EXP_OF_REST
    + """\
  return p * ks_from_bits((ks_bits(t) + 127u) << 23);
}
"""
)

_ERF = """\
KS_INLINE float ks_erf_accurate(float x) {
  float a = std::fabs(x);
  float far = std::copysign(1.0f - ks_erfc_far(a), x);
  return a < 0.927f ? ks_erf_near(x) : far;
}
"""

_ERF_FAST = f"""\
KS_INLINE float ks_erf_fast(float x) {{
  float c = ks_cap(std::fabs(x), 3.93f);
  float s = c * c;
{horner("p", "s", "0x1.12112ep-19f 0x1.2aa4d8p-12f 0x1.ef679ep-9f 0x1.b0757p-5f 0x1.86b9f8p-3f 0x1.20dd76p+0f")}\
{horner("q", "s", "0x1.3ecd0ap-15f 0x1.317486p-10f 0x1.eb7018p-7f 0x1.d3fffap-4f 0x1.013c06p-1f 1.0f")}\
  float y = std::copysign(ks_cap((c * p) / q, 1.0f), x);
  return x != x ? x : y;
}}
"""

_GELU = """\
KS_INLINE float ks_gelu_accurate(float x) {  // x Phi(x), without the cancellation of 1 + erf for negative x
  float t = x * 0x1.6a09e6p-1f;
  float tail = std::fabs(t) > 9.19f ? 0.0f : 0.5f * ks_erfc_far(std::fabs(t));
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


_INNER = "2.0f * 0.797884561f * ks_fma(0.044715f * x * x, x, x)"

_GELU_TANH = f"""\
KS_INLINE float ks_gelu_tanh_accurate(float x) {{  // 0.5 (1 + tanh(u)) is sigmoid(2u), without cancellation
  return x * ks_sigmoid_accurate({_INNER});
}}
"""

_GELU_TANH_FAST = f"""\
KS_INLINE float ks_gelu_tanh_fast(float x) {{ return x / (1.0f + ks_exp_part(-({_INNER}))); }}
"""


_EXP_A: tuple[tuple[str, Level], ...] = (("exp", "accurate"),)
_EXP_F: tuple[tuple[str, Level], ...] = (("exp_part", "fast"),)
_PARTS: tuple[tuple[str, Level], ...] = (("erf_parts", "accurate"),)
_SIGMOID_A: tuple[tuple[str, Level], ...] = (("sigmoid", "accurate"),)

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("tanh", "accurate"): Snippet(_TANH, 1.4, _EXP_A),
    ("tanh", "fast"): Snippet(_TANH_FAST, 4.5),
    ("sigmoid", "accurate"): Snippet(_SIGMOID, 2.5, _EXP_A),
    ("sigmoid", "fast"): Snippet(_SIGMOID_FAST, 4.0, _EXP_F),
    ("silu", "accurate"): Snippet(_SILU, 3.2, _EXP_A, low=-85.0),
    ("silu", "fast"): Snippet(_SILU_FAST, 4.0, _EXP_F, note="0 below -88.3", low=-85.0),
    ("erf_parts", "accurate"): Snippet(_ERF_PARTS, 0.0, note="internal"),
    ("erf", "accurate"): Snippet(_ERF, 1.3, _PARTS),
    ("erf", "fast"): Snippet(_ERF_FAST, 6.0),
    ("gelu", "accurate"): Snippet(_GELU, 1.7, _PARTS, scale="argument"),
    ("gelu", "fast"): Snippet(_GELU_FAST, 4.0, (("erf", "fast"),), scale="argument"),
    ("gelu_tanh", "accurate"): Snippet(_GELU_TANH, 2.5, _SIGMOID_A, scale="argument"),
    ("gelu_tanh", "fast"): Snippet(_GELU_TANH_FAST, 4.0, _EXP_F, scale="argument"),
}
