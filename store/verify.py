"""Whether a log is what was written: the chain recomputed from its first event."""

import duckdb

from ..schemas import LogCorrupted, Schema
from .chain import Chain
from .database import read_contents
from .rows import SPAN, rows_in
from .typed import differing

_PASSING = (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.ConnectionException)


class VerifyResult(Schema, frozen=True, kw_only=True):
    """What the check of a log found."""

    ok: bool
    events: int
    """Events that were found good, from the first."""

    head: str
    """Hash of the last good one."""

    bad_seq: int | None = None
    """Position in the log of the first bad event; None if all are good, and only tables made of them are not."""

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
            location = "beside its events" if self.bad_seq is None else f"from event {self.bad_seq}"
            who = "" if self.bad_seq is None else f" ({self.bad_id or 'missing'})"
            raise LogCorrupted(f"The log is damaged {location}{who}: {self.reason}.")
        return self


def verify_chain(con: duckdb.DuckDBPyConnection) -> VerifyResult:
    """Walk the whole chain, comparing hashes, positions, and typed columns with the bytes."""
    chain, span = Chain(), SPAN
    while True:
        try:
            rows = rows_in(con, chain.good, span)
        except duckdb.Error as error:
            if span == 1:
                return unreadable(chain, error)
            span = 1  # event by event through the page that cannot be read: the file lost pieces, or holds others
            continue
        for row in rows:
            reason = chain.follow(row)
            if reason:
                return bad_event(chain, row.id, reason)
        if not rows:
            return _ended(con, chain)


def bad_event(chain: Chain, id: str, reason: str) -> VerifyResult:
    """The verdict on a log whose next event after ``chain`` is bad."""
    return VerifyResult(ok=False, events=chain.good, head=chain.head, bad_seq=chain.good + 1, bad_id=id, reason=reason)


def not_as_told(table: str, seq: int, id: str = "", *, events: int = 0, head: str = "") -> VerifyResult:
    """The verdict on a log in which the typed ``table`` is wrong about the event ``seq``."""
    reason = f"the table {table} does not hold what its body says"
    return VerifyResult(ok=False, events=events, head=head, bad_seq=seq, bad_id=id, reason=reason)


def unreadable(chain: Chain, error: duckdb.Error) -> VerifyResult:
    """The verdict on a log whose next event after ``chain`` DuckDB cannot read.

    Raises:
        duckdb.Error: ``error``, if it says nothing of the file: it was closed meanwhile, or there is no memory left.
    """
    return bad_event(chain, "", f"the file cannot be read there, {_cut(error)}")


def ended(chain: Chain, events: str, head: str) -> VerifyResult:
    """The verdict on a log without a bad event, that was left with ``events`` events and the hash ``head``."""
    if events == str(chain.good) and head != chain.head:
        return bad_event(chain, "", f"the last hash is {chain.head}, but the log was left with {head}")
    if events != str(chain.good):
        return bad_event(chain, "", f"the log ends after {chain.good} events, but it was left with {events}")
    return VerifyResult(ok=True, events=chain.good, head=chain.head)


def _cut(error: duckdb.Error) -> str:
    """What a page that DuckDB cannot read comes from. Raises ``error`` if that is no such page."""
    if isinstance(error, _PASSING):
        raise error
    return f"it was cut or overwritten: {str(error).strip().splitlines()[0]}"


def _ended(con: duckdb.DuckDBPyConnection, chain: Chain) -> VerifyResult:
    outside = con.execute(
        "SELECT seq, id FROM events WHERE seq > ? OR seq < 1 ORDER BY seq LIMIT 1", [chain.good]
    ).fetchone()
    if outside is not None:
        return bad_event(
            chain, outside[1], f"it stands at position {outside[0]}, events before it are missing or doubled"
        )
    contents = read_contents(con)
    result = ended(chain, contents.marks.get("events", ""), contents.marks.get("head", ""))
    try:
        wrong = differing(con) if result.ok and contents.typed_fit else None
    except duckdb.Error as error:
        reason = (
            f"the tables made of them cannot be read, {_cut(error)}; "
            "`kernelswarm log backup FILE` makes a whole log of the events"
        )
        return VerifyResult(ok=False, events=chain.good, head=chain.head, reason=reason)
    if wrong is None:
        return result
    name, seq = wrong
    row = con.execute("SELECT id FROM events WHERE seq = ?", [seq]).fetchone()
    return not_as_told(name, seq, row[0] if row else "", events=chain.good, head=chain.head)
