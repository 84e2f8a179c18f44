"""The C++ that measures the generator's math functions: each in a vector loop, against double over its whole domain."""

from collections.abc import Sequence

from kernelswarm.codegen.cpp import math as cpp_math

Key = tuple[str, cpp_math.Level]
"""Name and level of a function."""

ORACLES = {
    **{
        name: f"std::{name}(x)"
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2"),
            *("expm1", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh"),
        )
    },
    "sigmoid": "1 / (1 + std::exp(-x))",
    "silu": "x / (1 + std::exp(-x))",
    "gelu": "0.5 * x * std::erfc(-x * M_SQRT1_2)",
    "gelu_tanh": "x / (1 + std::exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)))",
    "rsqrt": "1 / std::sqrt(x)",
    "reciprocal": "1 / x",
}
"""What is right, in double, by name."""

PAIRS = {"pow": "std::pow(x, y)", "atan2": "std::atan2(x, y)", "hypot": "std::hypot(x, y)"}
"""The same for functions of two arguments."""

FIELDS = ("ulp", "at", "subnormal_ulp", "lost", "wrong_special", "special_at")
"""What a sweep finds out. ``ulp`` is the worst error of results that are neither subnormal nor infinite, at argument
``at``, between the table's ends; ``subnormal_ulp`` that of subnormal results in units of 2^-149, anywhere. ``lost``
counts finite results between the ends that came out infinite or NaN, ``wrong_special`` infinities and NaN that came out
as something else, anywhere, ``special_at`` being the last such argument."""

_HARNESS = """\
#include <cstdlib>
enum { CHUNK = 4096 };
struct Found { double ulp, at, subnormal_ulp, lost, wrong_special, special_at; };
static double last_place(double magnitude) {
  return std::ldexp(1.0, std::ilogb(magnitude < 0x1p-126 ? 0x1p-126 : magnitude) - 23);
}
static void judge(float x, float got, double exact, int scale, bool inside, Found* found) {
  const float rounded = (float)exact;
  if (!std::isfinite(rounded)) {
    const bool same = std::isnan(rounded) ? std::isnan(got) : got == rounded;
    if (!same) { found->wrong_special += 1; found->special_at = x; }
    return;
  }
  if (std::fabs(rounded) < 0x1p-126f) {
    const double off = std::isfinite(got) ? std::fabs(got - exact) / 0x1p-149 : INFINITY;
    if (off > found->subnormal_ulp) found->subnormal_ulp = off;
    return;
  }
  if (!inside) return;
  if (!std::isfinite(got)) { found->lost += 1; found->at = x; return; }
  const double whole = scale == 2 ? 1.0 : scale == 1 && x < 0.0f ? std::fabs((double)x) : std::fabs(exact);
  const double off = std::fabs(got - exact) / last_place(whole);
  if (off > found->ulp) { found->ulp = off; found->at = x; }
}
static const float EDGES[] = {
  0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, -NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f, 0x1p-126f,
  0x1.fffffep+127f, -0x1.fffffep+127f, 0x1.fffffep-1f, 0x1.000002p+0f, 88.7228317f, 88.72284f, -87.3365448f, 127.99999f,
  128.0f, -126.0f, -149.0f, -150.0f, 0.5f, -0.5f, 2.0f, -2.0f,
};
template <typename Many, typename Exact>
static void sweep(Many many, Exact exact, uint64_t step, double low, double high, int scale, Found* found) {
  static float x[CHUNK], y[CHUNK];
  for (uint64_t next = 0, left = sizeof EDGES / sizeof *EDGES; next < (1ull << 32) || left;) {
    long n = 0;
    for (; n < CHUNK && next < (1ull << 32); next += step) x[n++] = ks_from_bits((uint32_t)next);
    for (; n < CHUNK && left;) x[n++] = EDGES[--left];
    many(x, y, n);
    for (long i = 0; i < n; ++i) {
      const bool inside = !((double)x[i] < low) && !((double)x[i] > high);
      judge(x[i], y[i], exact((double)x[i]), scale, inside, found);
    }
  }
}
static uint64_t drawn(uint64_t* state) {  // xorshift64*
  *state ^= *state >> 12; *state ^= *state << 25; *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1dull;
}
static float magnitude(uint64_t bits, int binades) {  // either sign, binades about 1
  const float m = 1.0f + (float)(bits & 0x7fffff) * 0x1p-23f;
  return std::ldexp((bits >> 24) & 1 ? m : -m, (int)((bits >> 25) % (unsigned)(2 * binades)) - binades);
}
template <typename Many, typename Exact>
static void sweep_pairs(Many many, Exact exact, uint64_t count, Found* found) {
  static float x[CHUNK], y[CHUNK], z[CHUNK];
  uint64_t state = 88172645463325252ull;
  for (uint64_t done = 0; done < count; done += CHUNK) {
    for (long i = 0; i < CHUNK; ++i) {
      const bool any = i % 4 == 0;  // every fourth pair: any two floats
      x[i] = any ? ks_from_bits((uint32_t)(drawn(&state) >> 32)) : magnitude(drawn(&state) >> 8, 10);
      y[i] = any ? ks_from_bits((uint32_t)(drawn(&state) >> 32)) : magnitude(drawn(&state) >> 8, 5);
    }
    many(x, y, z, CHUNK);
    for (long i = 0; i < CHUNK; ++i) judge(x[i], z[i], exact((double)x[i], (double)y[i]), 0, true, found);
  }
}
"""


def entry(key: Key, kind: str) -> str:
    """The C name of what measures a function: ``loop``, ``sweep`` or ``repeat``."""
    return f"{kind}_{key[0]}_{key[1]}"


def measurable() -> list[Key]:
    """Every function of the library that has an oracle, by name and level."""
    return sorted(key for key in cpp_math.ERROR_ULP if key[0] in ORACLES or key[0] in PAIRS)


def source(keys: Sequence[Key]) -> str:
    """A C++ file that measures the functions ``keys``."""
    return "\n".join([cpp_math.snippet(keys), _HARNESS, *(_measures(key) for key in keys)])


def loops(keys: Sequence[Key]) -> str:
    """A C++ file with their loops alone, to be compiled with a report of what was vectorised."""
    return "\n".join([cpp_math.snippet(keys), *(_loop(key) for key in keys)])


def _loop(key: Key) -> str:
    arguments = "xy" if key[0] in PAIRS else "x"
    taken = ", ".join(f"const float* __restrict {name}" for name in arguments)
    given = ", ".join(f"{name}[i]" for name in arguments)
    return (
        f'extern "C" __attribute__((noinline)) void {entry(key, "loop")}({taken}, float* __restrict out, long n) {{\n'
        f"#pragma omp simd\n"
        f"for (long i = 0; i < n; ++i) out[i] = {cpp_math.symbol(*key)}({given});\n}}\n"
    )


def _measures(key: Key) -> str:
    name, loop = key[0], entry(key, "loop")
    if name in PAIRS:
        exact = f"[](double x, double y) {{ return (double)({PAIRS[name]}); }}"
        sweep = f"sweep_pairs({loop}, {exact}, (1ull << 32) / step, found)"
        repeat, arrays = f"{loop}(x, x, out, n)", "const float* x, float* out"
    else:
        exact = f"[](double x) {{ return (double)({ORACLES[name]}); }}"
        sweep = f"sweep({loop}, {exact}, step, low, high, scale, found)"
        repeat, arrays = f"{loop}(x, out, n)", "const float* x, float* out"
    return (
        f"{_loop(key)}"
        f'extern "C" void {entry(key, "sweep")}(uint64_t step, double low, double high, int scale, Found* found) {{\n'
        f"  (void)low; (void)high; (void)scale;\n  {sweep};\n}}\n"
        f'extern "C" void {entry(key, "repeat")}({arrays}, long n, long rounds) {{\n'
        f"  for (long r = 0; r < rounds; ++r) {repeat};\n}}\n"
    )
