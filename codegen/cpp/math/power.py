"""pow for any exponent, through double: the logarithm's error is multiplied by y log x, which float cannot carry."""

from __future__ import annotations

from .base import Level, Snippet

_POW = """\
KS_INLINE double ks_pow_log2(double x) {  // of a float's magnitude, so never subnormal here; relative error 2^-46
  int64_t i = (int64_t)ks_bits(x) - 0x3fe6a09e667f3bcdLL;
  double m = ks_from_bits64((uint64_t)(i & 0xfffffffffffffLL) + 0x3fe6a09e667f3bcdULL);
  double n = (double)(int32_t)(i >> 52);
  double s = (m - 1.0) / (m + 1.0);
  double q = s * s;
  double p = 0x1.2159ed237abeep-2;
  p = ks_fma(p, q, 0x1.479c787e010fbp-2);
  p = ks_fma(p, q, 0x1.a619f87a4f301p-2);
  p = ks_fma(p, q, 0x1.2776c2ed3765ep-1);
  p = ks_fma(p, q, 0x1.ec709dc4c42e9p-1);
  double head = ks_fma(s, 0x1.71547652b82fep+1, n);
  return ks_fma(p * q, s, head);
}
KS_INLINE double ks_pow_exp2(double t) {
  t = t < -160.0 ? -160.0 : t;
  t = t > 130.0 ? 130.0 : t;
  double z = t + 0x1.8p52;
  double r = t - (z - 0x1.8p52);
  double p = 0x1.fde501359e2edp-17;
  p = ks_fma(p, r, 0x1.445d318971cdep-13);
  p = ks_fma(p, r, 0x1.5d8a889a07423p-10);
  p = ks_fma(p, r, 0x1.3b29f2d59a1d2p-7);
  p = ks_fma(p, r, 0x1.c6b08abc45810p-5);
  p = ks_fma(p, r, 0x1.ebfbe0784a6a6p-3);
  p = ks_fma(p, r, 0x1.62e42ff0e4214p-1);
  p = ks_fma(p, r, 1.0);
  return p * ks_from_bits64((ks_bits(z) + 1023u) << 52);
}
KS_INLINE float ks_pow_accurate(float x, float y) {
  double a = std::fabs((double)x), e = y;
  double l = ks_pow_log2(a);
  l = a == 0.0 ? -(double)INFINITY : l;
  l = a == (double)INFINITY ? a : l;
  l = a != a ? a : l;
  float magnitude = (float)ks_pow_exp2(e * l);
  magnitude = a == 1.0 ? 1.0f : magnitude;  // also for y infinite, where e * l is NaN
  float half = 0.5f * y;
  bool whole = std::trunc(y) == y;
  bool odd = whole & (std::trunc(half) != half);
  float result = odd ? std::copysign(magnitude, x) : magnitude;
  result = ((x < 0.0f) & !whole & (a != (double)INFINITY)) ? NAN : result;
  result = y != y ? y : result;
  return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : result;
}
"""

SNIPPETS: dict[tuple[str, Level], Snippet] = {("pow", "accurate"): Snippet(_POW, 0.6)}
