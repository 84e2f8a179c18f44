"""The most similar of several names, for whoever has misspelt one."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean …?`` for the most similar of ``names``, or nothing."""
    by_casefold = {original.casefold(): original for original in names}
    meant = name.casefold()
    begun = [folded for folded in by_casefold if meant and folded.startswith(meant)]
    near = begun or difflib.get_close_matches(meant, by_casefold, cutoff=0.5)
    return f"; did you mean {by_casefold[near[0]]!r}?" if near else ""
