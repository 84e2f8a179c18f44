"""The log after the worst: a killed writer, a full disk."""

import asyncio
import contextlib
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import within

from given import envelope_of
from kernelswarm.schemas import StopRequested, StoreError, encode
from kernelswarm.store import Log, log_path
from kernelswarm.store.recorder import _open_when_free

WRITER = """
from pathlib import Path
from given import envelope_of
from kernelswarm.schemas import StopRequested, encode
from kernelswarm.store import Log, log_path

log = Log.open(log_path(Path(sys.argv[1])))
seq = log.last_seq("a")
while True:
    batch = [(seq + i, encode(envelope_of(StopRequested(reason="x" * 300), index=seq + i))) for i in range(1, 51)]
    log.append(batch, stream="a")
    seq += 50
    print(seq, flush=True)
"""

FULL = """
import json, resource, signal
from pathlib import Path
from given import envelope_of
from kernelswarm.schemas import StopRequested, StoreError, encode
from kernelswarm.store import Log, log_path

log = Log.open(log_path(Path(sys.argv[1])))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
written = 0
try:
    while True:
        made = (envelope_of(StopRequested(reason=f"{i} " * 40), index=i) for i in range(written, written + 50))
        written += log.append([(written + i, encode(one)) for i, one in enumerate(made, 1)], stream="a")
except StoreError as error:
    print(json.dumps([written, str(error)]), flush=True)
"""


async def test_a_writer_that_is_killed_leaves_a_good_log(tmp_path: Path, python: Callable) -> None:
    count = 0
    for _ in range(3):
        writer = await python(WRITER, tmp_path)
        for _ in range(7):
            count = int(await writer.stdout.readline())
        writer.kill()
        await writer.wait()
        with Log.open(log_path(tmp_path), read_only=True) as log:
            assert len(log) >= count
        with Log.open(log_path(tmp_path)) as log:
            assert log.verify().check().events == log.last_seq("a") == len(log) >= count
            assert len(log) % 50 == 0, "a batch is whole or not there"


async def test_a_writer_that_is_killed_releases_the_log(tmp_path: Path, python: Callable) -> None:
    writer = await python(WRITER, tmp_path)
    await writer.stdout.readline()
    writer.kill()
    await writer.wait()
    with Log.open(log_path(tmp_path)) as log:
        before = len(log)
        assert log.append([(before + 1, encode(envelope_of(StopRequested(reason="after"))))], stream="a") == 1


def test_a_full_disk_is_one_sentence_and_nothing_half_written(tmp_path: Path) -> None:
    support = Path(__file__).parents[1] / "support"
    code = f"import sys; sys.path.insert(0, {str(support)!r})\n{FULL}"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    written, sentence = json.loads(done.stdout)
    assert sentence.startswith("The disk is full: the log at ")
    assert written > 0
    with Log.open(log_path(tmp_path)) as log:
        assert log.verify().check().events == written
        more = envelope_of(StopRequested(reason="again"), index=1_000_000)
        assert log.append([(written + 1, encode(more))], stream="a") == 1


@pytest.mark.parametrize("room", [0, 4096, 8192, 12_288, 100_000])
def test_a_disk_that_is_full_before_there_is_a_log_leaves_nothing_in_its_way(tmp_path: Path, room: int) -> None:
    with no_more_than(room), pytest.raises(StoreError, match="The disk is full"):
        Log.open(log_path(tmp_path)).close()
    with Log.open(log_path(tmp_path)) as log:
        assert log.append([(1, encode(envelope_of(StopRequested(reason="after"))))], stream="a") == 1
        assert log.verify().check().events == 1


@contextlib.contextmanager
def no_more_than(room: int) -> Iterator[None]:
    """No file of this process grows beyond ``room`` bytes while the body runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


async def test_a_recorder_waits_for_the_lock_and_gets_it(tmp_path: Path, python: Callable) -> None:
    holder = await python(WRITER, tmp_path)
    await holder.stdout.readline()
    with ThreadPoolExecutor(1) as pool:
        waiting = asyncio.create_task(_open_when_free(log_path(tmp_path), pool))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        holder.kill()
        await holder.wait()
        (await within(waiting)).close()
