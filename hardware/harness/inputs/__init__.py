"""On which inputs candidates are tried: variants of the problem's own, other shapes, sizes. No torch."""
