"""Look-up by a grid over the table's range: the cell of a query leaves a few boundaries to compare."""

from __future__ import annotations

from .base import Algorithm

# Right for any distribution: the cell is a monotone function of the key, so a boundary in an earlier cell is smaller
# and one in a later cell is larger than the query; only the query's own cell is searched, by halving.
_GRID = """\
template <typename K, bool REAL = std::is_floating_point<K>::value> struct ks_cells;
template <typename K> struct ks_cells<K, true> {  // (x - low) * scale, rounded down
  K low = 0, scale = 0, last = 0;
  int64_t fit(const K* table, int64_t n, int64_t wanted) {
    const K width = table[n - 1] - table[0];
    const K limit = K(4194304);  // float counts cells exactly up to here
    low = table[0];
    if (!(width > 0 && width - width == 0)) return 1;  // one value or an infinite range: one cell
    last = std::min(K(wanted), limit) - 1;
    scale = last / width;
    if (scale - scale != 0) { scale = 0; last = 0; }
    return (int64_t)last + 1;
  }
  ks_position<K> operator()(K x) const {
    K c = (x - low) * scale;
    c = c > 0 ? c : K(0);  // NaN as well
    c = c < last ? c : last;
    return (ks_position<K>)c;
  }
};
template <typename K> struct ks_cells<K, false> {  // (x - low) >> shift
  using U = typename std::make_unsigned<K>::type;
  K low = 0, high = 0;
  int shift = 0;
  int64_t fit(const K* table, int64_t n, int64_t wanted) {
    low = table[0];
    high = table[n - 1];
    while ((uint64_t)((U)((U)high - (U)low) >> shift) >= (uint64_t)wanted) ++shift;
    return (int64_t)((U)((U)high - (U)low) >> shift) + 1;
  }
  ks_position<K> operator()(K x) const {
    K c = x < low ? low : x;
    c = c > high ? high : c;
    return (ks_position<K>)((U)((U)c - (U)low) >> shift);
  }
};
template <typename K> struct ks_index_grid {
  const K* table;
  int64_t n, count = 0;
  ks_cells<K> cells;
  std::vector<int32_t> first;  // first[c]: how many boundaries lie in cells before c
  ks_index_grid(const K* table_, int64_t n_, int64_t per_key = 2) : table(table_), n(n_) {
    if (n < 1 || n > (INT32_MAX >> 3)) return;
    count = cells.fit(table, n, per_key * n);
    first.assign(count + 1, 0);
    int32_t* write = first.data() + 1;
    for (int64_t i = 0; i < n; ++i) write[cells(table[i])] = (int32_t)(i + 1);  // sorted: the last one stays
    int32_t top = 0;
    for (int64_t c = 0; c < count; ++c) write[c] = top = std::max(top, write[c]);
  }
};
template <bool RIGHT, typename K, typename O>
static inline void ks_lookup_grid(const ks_index_grid<K>& index, const K* x, O* out, int64_t count) {
  using P = ks_position<K>;
  if (index.count < 1) return ks_lookup_binary<RIGHT>(index.table, index.n, x, out, count);
  const K* table = index.table;
  const int32_t* first = index.first.data();
  const ks_cells<K> cells = index.cells;
  const P last = (P)(index.n - 1);
  P low[KS_TILE], left[KS_TILE];
  for (int64_t start = 0; start < count; start += KS_TILE) {
    const K* query = x + start;
    const int64_t m = std::min(KS_TILE, count - start);
    P most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < m; ++j) {
      const P c = cells(query[j]);
      const P begin = first[c], size = first[c + 1] - begin;
      low[j] = begin;
      left[j] = size;
      most = most > size ? most : size;
    }
    for (; most > 0; most >>= 1) {
#pragma omp simd
      for (int64_t j = 0; j < m; ++j) {
        const P half = left[j] >> 1;
        P probe = low[j] + half;
        probe = probe < last ? probe : last;
        const bool before = ks_before<RIGHT>(table[probe], query[j]);
        const P size = left[j];
        low[j] = (before & (size > 0)) ? probe + 1 : low[j];
        left[j] = before ? (size > half ? size - half - 1 : P(0)) : half;
      }
    }
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) out[start + j] = (O)(query[j] != query[j] ? last + 1 : low[j]);  // NaN is last
  }
}
"""

ALGORITHMS = {
    "grid": Algorithm(
        "an index of 2 cells a key leads to the few boundaries of a query's cell",
        "several queries a key, or a table beyond the cache, keys spread out; 2x over tiled at 20 queries a key",
        _GRID,
        ("binary",),
        index=True,
    ),
}
