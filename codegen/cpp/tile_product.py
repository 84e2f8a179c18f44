"""The product of a tile in registers: C++ that special kernels call."""

TILE_PRODUCT = """\
// c (rows of 64) = or += a (m by k, strides as given) times b (rows of 64): as many sums as registers hold.
#if defined(__AVX512F__)
typedef float ks_vector __attribute__((vector_size(64), aligned(4)));
constexpr int KS_WIDE = 16, KS_VECTORS = 4;
#else
typedef float ks_vector __attribute__((vector_size(32), aligned(4)));
constexpr int KS_WIDE = 8, KS_VECTORS = 2;
#endif
template <int R>
static inline void ks_rows(
    const float* a, int64_t down, int64_t across, const float* b, float* c, int64_t k, bool add) {
  for (int column = 0; column < 64; column += KS_WIDE * KS_VECTORS) {
    ks_vector sums[R][KS_VECTORS];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < KS_VECTORS; ++v)
        sums[r][v] = add ? *(const ks_vector*)(c + r * 64 + column + v * KS_WIDE) : ks_vector{};
    for (int64_t p = 0; p < k; ++p) {
      const float* row = b + p * 64 + column;
      for (int r = 0; r < R; ++r) {
        const float x = a[r * down + p * across];
        for (int v = 0; v < KS_VECTORS; ++v) sums[r][v] += x * *(const ks_vector*)(row + v * KS_WIDE);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < KS_VECTORS; ++v) *(ks_vector*)(c + r * 64 + column + v * KS_WIDE) = sums[r][v];
  }
}

static void ks_tile_product(
    const float* a, int64_t down, int64_t across, const float* b, float* c, int64_t m, int64_t k, bool add) {
  int64_t r = 0;
  for (; r + 6 <= m; r += 6) ks_rows<6>(a + r * down, down, across, b, c + r * 64, k, add);
  for (; r + 2 <= m; r += 2) ks_rows<2>(a + r * down, down, across, b, c + r * 64, k, add);
  for (; r < m; ++r) ks_rows<1>(a + r * down, down, across, b, c + r * 64, k, add);
}
"""
