"""sin and cos: the quarter turns are taken off in double, the rest goes through minimax polynomials in float."""

from __future__ import annotations

from .base import Level, Snippet, horner

_FULL_TURN = int("6487ed5110b4611a62633145c06e0e68948127044533e63a0105df531d89cd913", 16)
"""2 pi in units of 2^-256."""


def _powers() -> tuple[list[float], list[float]]:
    """2^k modulo a full turn, k = 0..104: the first 29 bits, and what is left.

    |x| = m 2^k with m < 2^24, so m times the first part is exact in double and any float can be reduced.
    """
    heads, tails = [], []
    for k in range(105):
        value = (1 << (256 + k)) % _FULL_TURN
        cut = max(value.bit_length() - 29, 0)
        head = value >> cut << cut
        heads.append(head / (1 << 256))
        tails.append((value - head) / (1 << 256))
    return heads, tails


def _tables() -> str:
    return "".join(
        f"static const double ks_turn_{name}[105] = {{{', '.join(value.hex() for value in values)}}};\n"
        for name, values in zip(("head", "tail"), _powers(), strict=True)
    )


_REDUCE = """\
KS_INLINE float ks_turn_accurate(float x, uint32_t* quarter) {  // x - n pi/2, and n, for every finite x
  uint32_t u = ks_bits(x);
  int32_t k = (int32_t)((u >> 23) & 255u) - 150;
  k = k < 0 ? 0 : (k > 104 ? 104 : k);
  double m = (double)ks_from_bits(u - ((uint32_t)k << 23));
  double y = m * ks_turn_head[k];
  double low = m * ks_turn_tail[k];
  double t = ks_fma(y + low, 0x1.45f306dc9c883p-1, 0x1.8p52);
  double n = t - 0x1.8p52;
  double r = ks_fma(n, -0x1.921fb54442d18p+0, y);
  r = ks_fma(n, -0x1.1a62633145c07p-54, r);
  r = r + low;
  *quarter = (uint32_t)ks_bits(t);
  return (float)r;
}
"""

_REDUCE_SHORT = """\
KS_INLINE float ks_turn_short(float x, uint32_t* quarter) {  // for |x| < 1e5
  float t = ks_fma(x, 0x1.45f306p-1f, 0x1.8p23f);
  float n = t - 0x1.8p23f;
  float r = ks_fma(n, -0x1.921fb60000000p+0f, x);
  r = ks_fma(n, 0x1.777a5c0000000p-25f, r);
  r = ks_fma(n, 0x1.ee59da0000000p-50f, r);
  *quarter = ks_bits(t);
  return r;
}
"""

_POLYNOMIALS = f"""\
KS_INLINE float ks_turn_value(float r, uint32_t quarter) {{  // sin(r + quarter pi/2), |r| <= pi/4
  float s = r * r;
{horner("p", "s", "0x1.6cd0aap-19f -0x1.a00f7ap-13f 0x1.111108p-7f -0x1.555556p-3f")}\
  float sine = ks_fma(p * s, r, r);
{horner("q", "s", "0x1.99ea02p-16f -0x1.6c0c2ep-10f 0x1.55554ap-5f")}\
  float cosine = ks_fma(q, s * s, ks_fma(-0.5f, s, 1.0f));
  float y = (quarter & 1u) ? cosine : sine;
  return ks_from_bits(ks_bits(y) ^ ((quarter & 2u) << 30));
}}
"""


def _function(name: str, level: Level, shift: int) -> str:
    offset = f" + {shift}u" if shift else ""
    return f"""\
KS_INLINE float ks_{name}_{level}(float x) {{
  uint32_t quarter;
  float r = ks_turn_{level}(x, &quarter);
  float y = ks_turn_value(r, quarter{offset});
  return std::fabs(x) < INFINITY ? y : NAN;
}}
"""


_VALUE: tuple[tuple[str, Level], ...] = (("turn_value", "accurate"),)
_EXACT: tuple[tuple[str, Level], ...] = (("turn", "accurate"),)
_SHORT: tuple[tuple[str, Level], ...] = (("turn", "short"),)

SNIPPETS: dict[tuple[str, Level], Snippet] = {
    ("turn_value", "accurate"): Snippet(_POLYNOMIALS, 0.0, note="internal"),
    ("turn", "accurate"): Snippet(_tables() + _REDUCE, 0.0, _VALUE, note="internal"),
    ("turn", "short"): Snippet(_REDUCE_SHORT, 0.0, _VALUE, note="internal"),
    ("sin", "accurate"): Snippet(_function("sin", "accurate", 0), 1.6, _EXACT),
    ("cos", "accurate"): Snippet(_function("cos", "accurate", 1), 1.6, _EXACT),
    ("sin", "short"): Snippet(_function("sin", "short", 0), 0.8, _SHORT, scale="one", low=-1e5, high=1e5),
    ("cos", "short"): Snippet(_function("cos", "short", 1), 0.8, _SHORT, scale="one", low=-1e5, high=1e5),
}
