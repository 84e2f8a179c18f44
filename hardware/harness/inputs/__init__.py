"""Which inputs candidates are checked on: variants of the problem's own, other shapes, sizes. No torch."""
