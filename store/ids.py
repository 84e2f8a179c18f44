"""Which event ids the log has: small and quick, because it is asked for every event."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

_MERGE_AT = 100_000


class IdIndex:
    """A set of 64-bit fingerprints of ids: eight bytes an event, no false negative.

    A hit is a suspicion that the log settles with an exact look-up; by chance that happens once in
    2**64 / n. The bulk is one sorted array, what came since is a set that is merged in now and then.
    """

    def __init__(self, fingerprints: npt.NDArray[np.uint64]) -> None:
        self._sorted = np.sort(fingerprints)
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def suspects(self, ids: Mapping[str, int]) -> set[str]:
        """Those of ``ids`` that are probably in the log; all the others certainly are not.

        Args:
            ids: each with its :func:`.chain.fingerprint`.
        """
        fingerprints = np.fromiter(ids.values(), dtype=np.uint64, count=len(ids))
        places = np.searchsorted(self._sorted, fingerprints)
        hits = np.zeros(len(fingerprints), dtype=bool)
        inside = places < len(self._sorted)
        hits[inside] = self._sorted[places[inside]] == fingerprints[inside]
        return {
            event_id for (event_id, print_), hit in zip(ids.items(), hits, strict=True) if hit or print_ in self._recent
        }

    def add(self, fingerprints: Iterable[int]) -> None:
        """Remember the ids that have these."""
        self._recent.update(fingerprints)
        if len(self._recent) >= _MERGE_AT:
            recent = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
            self._sorted = np.sort(np.concatenate((self._sorted, recent)))
            self._recent.clear()
