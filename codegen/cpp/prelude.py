"""C++ helpers that generated code calls; only those that a candidate needs are put into it."""

from collections.abc import Iterable

from .tile_product import TILE_PRODUCT

ALWAYS = """\
#include <omp.h>
#include <sys/mman.h>

template <typename T> KS_INLINE T ks_max(T a, T b) { return a > b ? a : b; }
template <typename T> KS_INLINE T ks_min(T a, T b) { return a < b ? a : b; }
KS_INLINE int64_t ks_clip(int64_t x, int64_t low, int64_t high) { return ks_min(ks_max(x, low), high); }
template <typename T> struct ks_array {  // its own, as reading <memory> takes as long as compiling a small kernel
  T* const data;
  explicit ks_array(int64_t count) : data(new T[count]) {}
  ks_array(const ks_array&) = delete;
  ~ks_array() { delete[] data; }
  T& operator[](int64_t place) const { return data[place]; }
};
"""

HELPERS: dict[str, str] = {
    "ks_huge_pages": """\
// Fresh memory is mapped page by page on first touch: with 2 MiB pages that costs a hundredth of what 4 KiB pages cost.
static void ks_huge_pages(void* data, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t begin = (uintptr_t(data) + page - 1) & ~(page - 1);
  const uintptr_t end = (uintptr_t(data) + uintptr_t(bytes)) & ~(page - 1);
  if (bytes >= (4 << 20) && end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)data; (void)bytes;
#endif
}
""",
    "ks_quotient": """\
// No processor divides vectors of integers. Rounded once, a quotient below 2^53 does not reach the next integer.
KS_INLINE int64_t ks_quotient(int64_t a, int64_t b) { return int64_t(double(a) / double(b)); }
KS_INLINE int64_t ks_rest(int64_t a, int64_t b) { return a - ks_quotient(a, b) * b; }
""",
    "ks_stream": """\
#if defined(__SSE2__)
#include <emmintrin.h>  // reading all of <immintrin.h> takes longer than compiling the kernel
#endif

// Copies past the caches: an ordinary store would first read the line it writes to.
template <typename T> KS_INLINE void ks_stream(T* out, const T* in, int64_t count) {
#if defined(__SSE2__)
  int64_t k = 0;
  for (; k < count && (uintptr_t(out + k) & 63); ++k) out[k] = in[k];
  const int64_t step = 64 / int64_t(sizeof(T));
  for (; k + step <= count; k += step) {
    for (int64_t l = 0; l < step; l += step / 4)
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + k + l),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + k + l)));
  }
  for (; k < count; ++k) out[k] = in[k];
#else
  std::memcpy(out, in, size_t(count) * sizeof(T));
#endif
}

// Streamed stores are not ordered with others: to be called by each thread before its results are read.
KS_INLINE void ks_stream_end() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
""",
    "ks_from_bfloat16": """\
KS_INLINE float ks_from_bfloat16(uint16_t x) { return ks_from_bits(uint32_t(x) << 16); }
""",
    "ks_to_bfloat16": """\
KS_INLINE uint16_t ks_to_bfloat16(float x) {  // to nearest, ties to even
  const uint32_t u = ks_bits(x);
  return x != x ? uint16_t(0x7fc0) : uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
""",
    "ks_round_bfloat16": """\
KS_INLINE float ks_round_bfloat16(float x) { return ks_from_bfloat16(ks_to_bfloat16(x)); }
""",
    "ks_round_float16": """\
KS_INLINE float ks_round_float16(float x) { return (float)(_Float16)x; }
""",
    "ks_isnan": "template <typename T> KS_INLINE bool ks_isnan(T x) { return x != x; }\n",
    "ks_isinf": """\
template <typename T> KS_INLINE bool ks_isinf(T x) { return (x == (T)INFINITY) | (x == -(T)INFINITY); }
""",
    "ks_isfinite": "template <typename T> KS_INLINE bool ks_isfinite(T x) { return x - x == 0; }\n",
    # GCC 12 ends with an internal error where it makes vectors of std::signbit.
    "ks_signbit": (
        "KS_INLINE bool ks_signbit(float x) { return ks_bits(x) >> 31; }\n"
        "KS_INLINE bool ks_signbit(double x) { return ks_bits(x) >> 63; }\n"
    ),
    # One instruction: a number that bounds others is never NaN.
    "ks_at_least": "template <typename T> KS_INLINE T ks_at_least(T x, T low) { return x < low ? low : x; }\n",
    "ks_at_most": "template <typename T> KS_INLINE T ks_at_most(T x, T high) { return x > high ? high : x; }\n",
    "ks_ordered": """\
// A float as an integer that is larger where the float is; both zeros are one, NaN is the largest.
KS_INLINE int64_t ks_ordered(float x) {
  const int32_t i = (int32_t)ks_bits(x + 0.0f);
  const int32_t j = i ^ ((i >> 31) & 0x7fffffff);
  return x != x ? 0x7f800001 : j;
}
""",
    "ks_unordered": """\
KS_INLINE float ks_unordered(int64_t x) {
  const int32_t i = (int32_t)x;
  return ks_from_bits((uint32_t)(i ^ ((i >> 31) & 0x7fffffff)));
}
""",
    "ks_sign": "template <typename T> KS_INLINE T ks_sign(T x) { return (T)((x > 0) - (x < 0)); }\n",
    "ks_abs_int": """\
template <typename T, typename U> KS_INLINE T ks_abs_int(T x) { return (T)(x < 0 ? 0 - (U)x : (U)x); }
""",
    "ks_remainder_int": """\
template <typename T> KS_INLINE T ks_remainder_int(T a, T b) {  // sign of the divisor, as in Python
  const T r = (T)(a % b);
  return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
""",
    "ks_floor_div_int": """\
template <typename T> KS_INLINE T ks_floor_div_int(T a, T b) {
  const T q = (T)(a / b);
  return (T)(q * b != a && (a < 0) != (b < 0) ? q - 1 : q);
}
""",
    "ks_wrap": """\
// An index as PyTorch reads it: negative ones count from the end, others out of range are an error after the loop.
KS_INLINE int64_t ks_wrap(int64_t i, int64_t size, int64_t& bad) {
  i = i < 0 ? i + size : i;
  const bool out = (uint64_t)i >= (uint64_t)size;
  bad |= (int64_t)out;
  return out ? 0 : i;
}
""",
    "ks_wrap_none": """\
// An index of gather and the like, which count none from the end: negative ones are an error, too.
KS_INLINE int64_t ks_wrap_none(int64_t i, int64_t size, int64_t& bad) {
  const bool out = (uint64_t)i >= (uint64_t)size;
  bad |= (int64_t)out;
  return out ? 0 : i;
}
""",
    "ks_fold": """\
// Folds independent accumulators pairwise: vectorisable, and rounding errors grow with the logarithm only.
template <int N, typename T, typename F> KS_INLINE T ks_fold(T (&a)[N], F combine) {
  if constexpr (N == 1) {
    return a[0];
  } else {  // widths that are constants: GCC makes branches of a loop over them
    T half[N / 2];
    #pragma omp simd
    for (int l = 0; l < N / 2; ++l) half[l] = combine(a[l], a[l + N / 2]);
    return ks_fold(half, combine);
  }
}
""",
    "ks_nan_max": """\
template <typename T> KS_INLINE T ks_nan_max(T x, T m) {  // NaN wins; two choices vectorise best
  const T r = x > m ? x : m;
  return x != x ? x : r;
}
""",
    "ks_nan_min": """\
template <typename T> KS_INLINE T ks_nan_min(T x, T m) {  // NaN wins; two choices vectorise best
  const T r = x < m ? x : m;
  return x != x ? x : r;
}
""",
    "ks_memory": """\
// Memory of a thread, along cache lines.
#include <cstdlib>
template <typename T> struct ks_memory {
  T* data;
  explicit ks_memory(int64_t count)
      : data(static_cast<T*>(std::aligned_alloc(64, (size_t(count) * sizeof(T) + 63) / 64 * 64))) {}
  ~ks_memory() { std::free(data); }
  ks_memory(const ks_memory&) = delete;
};
""",
    "ks_tile_product": TILE_PRODUCT,
    "ks_segment": """\
#include <algorithm>

// Segment that element i of a ragged dimension lies in.
KS_INLINE int64_t ks_segment(int64_t i, const int64_t* __restrict offsets, int64_t n) {
  return std::upper_bound(offsets + 1, offsets + n, i) - (offsets + 1);
}
""",
    "ks_segments": """\
// Segments of the positions from begin on: one search, then runs.
template <typename O>
static void ks_segments(const int64_t* __restrict offsets, int64_t n, int64_t begin, int64_t width, O* __restrict out) {
  int64_t s = ks_segment(begin, offsets, n);
  for (int64_t i = begin; i < begin + width;) {
    while (s + 2 < n && offsets[s + 1] <= i) ++s;
    const int64_t end = s + 2 < n ? ks_min(offsets[s + 1], begin + width) : begin + width;
    for (; i < end; ++i) out[i - begin] = (O)s;
  }
}
""",
}

_NEEDS = {"ks_round_bfloat16": ("ks_from_bfloat16", "ks_to_bfloat16")}


def prelude(helpers: Iterable[str]) -> str:
    """Text of the helpers named, those that they need first."""
    names = set(helpers)
    for name in list(names):
        names.update(_NEEDS.get(name, ()))
    return "\n".join([ALWAYS, *(text for name, text in HELPERS.items() if name in names)])
