"""However the stream is cut into batches, sent again, doubled or broken off: the log is that of the clean run."""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from story import story

from kernelswarm.schemas import Envelope, encode
from kernelswarm.store import Log, log_path

TOLD = story("one") + story("two")
VIEWS = "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY view_name"


@contextmanager
def a_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def seen(log: Log) -> dict[str, list[Any]]:
    """Everything a user can ask for, by view, and the bytes."""
    with log.cursor() as cursor:
        names = [name for (name,) in cursor.execute(VIEWS).fetchall()]
        tables = {name: sorted(map(repr, cursor.execute(f"SELECT * FROM {name}").fetchall())) for name in names}
    assert tables
    return {**tables, "wire": [encode(envelope) for _, envelope in log.read()]}


@functools.cache
def clean() -> dict[str, list[Any]]:
    with a_home() as home, Log.open(log_path(home)) as log:
        log.append([(seq, encode(envelope)) for seq, envelope in enumerate(TOLD, 1)], stream="a")
        return seen(log)


@st.composite
def streams(draw: st.DrawFn) -> list[Envelope]:
    """The story in its order, with copies of earlier events anywhere behind them."""
    stream = list(TOLD)
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(stream) - 1))
        stream.insert(draw(st.integers(first + 1, len(stream))), stream[first])
    return stream


@settings(max_examples=settings().max_examples // 12)  # each opens the log several times
@for_all(st.data())
def test_batches_redeliveries_copies_and_cuts_leave_one_row_an_event(data: st.DataObject) -> None:
    stream = data.draw(streams())
    with a_home() as home:
        log = Log.open(log_path(home))
        try:
            while (reached := log.last_seq("a")) < len(stream):
                # A recorder that was killed before its acknowledgement gets again what it has written already.
                start = data.draw(st.integers(0, reached), label="sent again from")
                end = data.draw(st.integers(reached + 1, len(stream)), label="up to")
                log.append([(seq + 1, encode(stream[seq])) for seq in range(start, end)], stream="a")
                if data.draw(st.integers(0, 3), label="started again if 0") == 0:
                    log.close()
                    log = Log.open(log_path(home))
            assert log.verify().check().events == len(TOLD) == len(log)
            assert seen(log) == clean()
        finally:
            log.close()
