"""Whatever is changed in the file, verify names the first event that is not what was written."""

from pathlib import Path

import duckdb
import pytest
from story import story, wire

from kernelswarm.schemas import LogCorrupted
from kernelswarm.store import Log
from kernelswarm.store.chain import Row, chain_hash


def tampered(log: Log, *statements: str) -> Log:
    log.append(wire(story()))
    log.close()
    with duckdb.connect(log.path) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("DROP TRIGGER no_delete ON events")
        for statement in statements:
            con.execute(statement)
    return Log.open(log.path)


COLUMNS = ["id", "session", "pool", "node", "tag", "agent", "worker", "cause"]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_column(log: Log, column: str) -> None:
    with tampered(log, f"UPDATE events SET {column} = 'other' WHERE seq = 5") as log:
        result = log.verify()
    assert (result.ok, result.bad_seq, result.events) == (False, 5, 4)


@pytest.mark.parametrize(
    ("statement", "seq", "reason"),
    [
        ("UPDATE events SET body = replace(body, '3.0', '2.5') WHERE tag = 'baselines.measured.v1'", 2, "hash"),
        ("UPDATE events SET body = body || ' ' WHERE seq = 3", 3, "column body"),
        ("UPDATE events SET at_ns = at_ns + 1 WHERE seq = 6", 6, "hash"),
        ("UPDATE events SET schema_version = 2 WHERE seq = 6", 6, "column schema_version is 2, its bytes say 1"),
        ("UPDATE events SET tag = 'node.planned.v1' WHERE seq = 6", 6, "column tag"),
        ("UPDATE events SET wire = '{}' WHERE seq = 6", 6, "its bytes are no event"),
        ("UPDATE events SET hash = repeat('0', 64) WHERE seq = 1", 1, "hash"),
        ("DELETE FROM events WHERE seq = 4", 4, "position 5"),
        ("UPDATE events SET seq = 9 - seq WHERE seq IN (4, 5)", 4, "hash"),
        ("DELETE FROM events WHERE seq > 7", 8, "ends after 7 events"),
        ("INSERT INTO events SELECT * FROM events WHERE seq = 7", 8, "position 7"),
    ],
)
def test_a_changed_history(log: Log, statement: str, seq: int, reason: str) -> None:
    with tampered(log, statement) as log:
        result = log.verify()
    assert (result.ok, result.bad_seq) == (False, seq)
    assert reason in result.reason
    with pytest.raises(LogCorrupted, match=f"damaged from event {seq} "):
        result.check()


def test_a_column_that_disagrees_is_seen_though_the_chain_was_recomputed(log: Log) -> None:
    log.append(wire(story()))
    log.close()
    with duckdb.connect(log.path) as con:
        rows = [Row._make(row) for row in con.execute("SELECT * FROM events ORDER BY seq").fetchall()]
        previous, forged = "0" * 64, []
        for row in rows:
            row = row._replace(tag="node.diagnosed.v1") if row.seq == 7 else row
            previous = chain_hash(row, previous)
            forged.append(row._replace(hash=previous))
        con.execute("DROP TRIGGER no_delete ON events")
        con.execute("DELETE FROM events")
        con.executemany(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", forged)
        con.execute("UPDATE meta SET value = ? WHERE key = 'head'", [previous])
    with Log.open(log.path) as log:
        result = log.verify()
    assert (result.ok, result.bad_seq) == (False, 7)
    assert "column tag is 'node.diagnosed.v1', its bytes say" in result.reason


def test_the_head_commits_to_everything_before_it(tmp_path: Path) -> None:
    def head(name: str, envelopes: list) -> str:
        with Log.open(tmp_path / name / "log.duckdb") as log:
            log.append(wire(envelopes))
            return log.head

    assert head("a", story("one")) == head("b", story("one"))
    assert head("c", story("one")[:-1]) != head("a2", story("one"))
    assert head("d", story("two")) != head("a3", story("one"))
