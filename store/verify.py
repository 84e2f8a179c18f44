"""Whether a log is what was written: the chain recomputed from its first event."""

from collections.abc import Iterator

import duckdb

from ..schemas import LogCorrupted, Schema
from .chain import GENESIS, Row, chain_hash, disagreement
from .database import read_meta

_CHUNK = 1000


class VerifyResult(Schema, frozen=True, kw_only=True):
    """What the check of a log found."""

    ok: bool
    events: int
    """Events that were found good, from the first."""

    head: str
    """Hash of the last good one."""

    bad_seq: int | None = None
    """Position in the log of the first bad event."""

    bad_id: str = ""
    """Its id."""

    reason: str = ""
    """What is wrong with it."""

    def check(self) -> "VerifyResult":
        """Return itself if the log is good.

        Raises:
            LogCorrupted: it is not; names the first bad event.
        """
        if not self.ok:
            raise LogCorrupted(
                f"The log is damaged from event {self.bad_seq} ({self.bad_id or 'missing'}): {self.reason}."
            )
        return self


def verify_chain(con: duckdb.DuckDBPyConnection) -> VerifyResult:
    """Walk the whole chain, comparing hashes, positions, and typed columns with the bytes."""
    head, good = GENESIS, 0
    for row in _rows(con):
        reason = _fault(row, good + 1, head)
        if reason:
            return VerifyResult(ok=False, events=good, head=head, bad_seq=good + 1, bad_id=row.id, reason=reason)
        head, good = row.hash, good + 1
    promised = read_meta(con, "events"), read_meta(con, "head")
    if promised != (str(good), head):
        reason = f"the log ends after {good} events, but it was left with {promised[0]}"
        return VerifyResult(ok=False, events=good, head=head, bad_seq=good + 1, reason=reason)
    return VerifyResult(ok=True, events=good, head=head)


def _fault(row: Row, expected_seq: int, previous: str) -> str:
    if row.seq != expected_seq:
        return f"it stands at position {row.seq}, events before it are missing or doubled"
    wrong = disagreement(row)
    if wrong:
        return wrong
    if row.hash != chain_hash(row, previous):
        return "its hash does not follow from its content and the event before it"
    return ""


def _rows(con: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    found = con.execute("SELECT * FROM events ORDER BY seq")
    while chunk := found.fetchmany(_CHUNK):
        yield from map(Row._make, chunk)
