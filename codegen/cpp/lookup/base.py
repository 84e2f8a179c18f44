"""What a look-up algorithm consists of, and the C++ that all look-up algorithms share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to find positions in a sorted table."""

    meaning: str
    """What it does, in one line."""
    applies: str
    """When it is worth trying, in one line; measured on two cores with AVX-512 against torch.bucketize."""
    code: str
    """C++ that defines `ks_lookup_<name>` (and, with an index, `ks_index_<name>`)."""
    needs: tuple[str, ...] = ()
    """Algorithms whose code this one calls."""
    index: bool = False
    """Whether a table must be indexed first: `ks_index_<name><K>`, once a call, before the parallel region."""


PRELUDE = """\
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>
// Whether a boundary lies before the place of v; NaN as v goes behind everything, as in torch.
template <bool RIGHT, typename K> static inline bool ks_before(K boundary, K v) {
  return RIGHT ? !(boundary > v) : !(boundary >= v);
}
// Positions as wide as the keys keep all lanes of a vector loop equally wide.
template <typename K> using ks_position = typename std::conditional<sizeof(K) == 8, int64_t, int32_t>::type;
constexpr int64_t KS_TILE = 64;
"""
