"""What cannot be timed in an ordinary process, or behaves otherwise there, gives one true sentence."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import structs

from kernelswarm.hardware.harness.timing import idle_check
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.ordinary import Missing, OrdinaryHost, Settings, unseen
from kernelswarm.hardware.ordinary import process as process_module
from kernelswarm.hardware.ordinary.trust import CONFINED
from kernelswarm.schemas import Problem, ProblemFacts

from .conftest import HARDWARE, POOL, RIGHT, SCALE, Reason, Times, problem_from

pytestmark = pytest.mark.asyncio(loop_scope="session")

WALLS = """
import json, os, socket
def works(step):
    try:
        step()
        return True
    except OSError:
        return False
raise RuntimeError(json.dumps({
    "network": works(lambda: socket.create_connection(("127.0.0.1", 9), timeout=5)),
    "socket": works(lambda: socket.socket(socket.AF_INET)),
    "program": works(lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)),
    "fork": works(os.fork),
    "write beside": works(lambda: open("/tmp/kernelswarm-ordinary", "w")),
    "write itself": works(lambda: open(json.__file__, "a")),
    "write scratch": works(lambda: open("mine", "w")),
    "read secrets": works(lambda: os.listdir(os.path.expanduser("~root"))),
}))
"""
WRITES = """
import os, stat
def kernel(x, w):
    for descriptor in range(3, 4096):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b'{"token": "0123456789abcdef"}\\n')
        except OSError:
            pass
    return x.softmax(-1) * w
"""
ANSWERS = """
import os, stat, sys, threading
def kernel(x, w):
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, ANSWER)
        except OSError:
            pass
    threading.Event().wait()
"""
LATER = """
import torch
calls = 0
def kernel(x, w):
    global calls
    calls += 1
    return torch.softmax(x, -1) * w if calls <= 3 else torch.zeros_like(x)
"""
KEEPS = """
import torch
answers = {}
def kernel(x, w):
    if x.data_ptr() not in answers:
        answers[x.data_ptr()] = torch.softmax(x, -1) * w
    return answers[x.data_ptr()]
"""
KEEPS_LATE = KEEPS.replace(
    "def kernel(x, w):\n", "calls = 0\ndef kernel(x, w):\n    global calls\n    calls += 1\n"
).replace("if x.data_ptr() not in answers:", "if calls < 40 or x.data_ptr() not in answers:")
BUSY = """
import threading, torch
def burn():
    x = torch.ones(1 << 16)
    while True:
        x = x * 1.0
threading.Thread(target=burn, daemon=True).start()
def kernel(x, w):
    return torch.softmax(x, -1) * w
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [(WALLS, ["write scratch"]), (f"import subprocess{WALLS}", ["program", "fork", "write scratch"])],
    ids=["any file", "a file that compiles for itself"],
)
async def test_it_runs_behind_the_judges_walls(source: str, expected: list[str], reason: Reason) -> None:
    tried = json.loads((await reason(source)).partition("RuntimeError: ")[2])
    assert [name for name, works in tried.items() if works] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def kernel(:", "the finished file fails to load: SyntaxError"),
        ("import nothing_like_that", "the finished file fails to load: ModuleNotFoundError"),
        ("def other(x): return x", "the finished file fails to load: AttributeError"),
        ("def kernel(x, w): raise ValueError('no')", "the finished file fails to call: ValueError: no"),
        ("def kernel(x, w): return x", "does not give in an ordinary process what eager gives"),
        ("def kernel(x, w): return x[:1]", "output 0 is torch.float32 of shape [1, 512], not torch.float32 of shape"),
        ("def kernel(x, w): return x, w", "it gives 2 outputs, not 1"),
        (LATER, "does not give in an ordinary process what eager gives"),
        (KEEPS, "does not give in an ordinary process what eager gives"),
        (KEEPS_LATE, "does not give in an ordinary process what eager gives"),
        ("import os\ndef kernel(x, w): os.abort()", "the finished file died: killed by SIGABRT"),
        ("import os\nos._exit(3)", "the finished file died: exited with status 3"),
        *(
            (ANSWERS.replace("ANSWER", repr(answer)), "answers something else than it was asked for")
            for answer in (
                b"[" * 100_000 + b"\n",
                b'{"copy": 0, "outputs": [["torch.float32", [64, 512]]], "sizes": [Infinity]}\n',
                b'{"copy": 0, "outputs": [["torch.float32", [64, 512]]], "sizes": []}\n',
                b'{"copy": 0, "outputs": [7], "sizes": [8]}\n12345678',
                b'{"copy": 0, "outputs": [], "sizes": [-8, 8]}\n',
                b'{"failed": {"a": 1}}\n',
            )
        ),
        (WRITES, "the finished file answers something else than it was asked for"),
        (BUSY, "the finished file computes while others are timed"),
    ],
)
async def test_the_reason_is_said(text: str, expected: str, reason: Reason) -> None:
    assert expected in await reason(text)


async def test_one_that_hangs_is_ended(reason: Reason, host, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    hurried = type(host.settings.pool)(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=4.0)
    settings = type(host.settings)(hurried, host.settings.hardware, host.settings.home, ("eager",))
    monkeypatch.setattr(host, "settings", settings)
    text = "import threading\ndef kernel(x, w): threading.Event().wait()"
    assert await reason(text) == "the finished file did not call within 4 s"


async def test_files_in_memory_count_and_not_what_stacks_reserve(
    reason: Reason, host: OrdinaryHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the folder's GiB, the limit is as much as half of what it writes.
    small = replace(host.settings, pool=structs.replace(host.settings.pool, candidate_memory_bytes=1 << 20))
    monkeypatch.setattr(host, "settings", small)
    text = """
import os, time
files = [os.memfd_create(str(number)) for number in range(16)]
for file in files:
    os.write(file, bytes(128 << 20))
time.sleep(20.0)
"""
    assert await reason(text) == "the finished file died: killed by SIGKILL"


async def test_what_it_prints_harms_nobody(times: Times) -> None:
    text = RIGHT.replace("    return", "    print('x' * 100000)\n    return")
    assert (await times(text)).median_ms.keys() == {"eager", "candidate"}


KEEPS_ANSWERS = """
import torch
answers = {}

def kernel(x, w):
    key = x[0, 0].item(), x[1, 5].item()
    if key not in answers:
        answers[key] = sum(torch.softmax(x, -1) for _ in range(10)) / 10 * w
    return answers[key].clone()
"""
RIGHT_WHEN_SEEN_AGAIN = """
import torch
seen = {}

def kernel(x, w):
    key = x[0, 0].item(), x[1, 5].item()
    seen[key] = seen.get(key, 0) + 1
    return torch.softmax(x, -1) * w if len(seen) < 4 or seen[key] > 1 else torch.empty_like(x)
"""
PREPARED_BY_ADDRESS = """
import torch
prepared = {}

def kernel(x, w):
    if x.data_ptr() not in prepared:
        prepared[x.data_ptr()] = [torch.softmax(x, -1) for _ in range(30)]
    return torch.softmax(x, -1) * w
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def little(
    home: Path, facts_of: Callable[[Problem], Awaitable[ProblemFacts]], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OrdinaryHost]:
    """Of a problem so little that keeping its answers pays."""
    source = SCALE.replace("rows=64, cols=512", "rows=4, cols=64")
    problem = problem_from(tmp_path_factory.mktemp("problem"), source, "little")
    host = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",)), problem, await facts_of(problem))
    yield host
    await host.close()


@pytest.mark.parametrize("text", [RIGHT, PREPARED_BY_ADDRESS])
async def test_who_computes_every_answer_counts(text: str, little: OrdinaryHost, home: Path) -> None:
    assert "candidate" in (await little.time(text, Lease(POOL, home), effort=Effort(processes=1))).median_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KEEPS_ANSWERS, "keeps answers: a call on unseen inputs takes"),
        (RIGHT_WHEN_SEEN_AGAIN, "does not give on unseen inputs what eager gives"),
    ],
)
async def test_answers_that_are_kept_by_what_inputs_hold_do_not_count(
    text: str, expected: str, little: OrdinaryHost, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who is honest has all tries; who keeps answers is as slow at each.
    monkeypatch.setattr(unseen, "TRIES", 2)
    with pytest.raises(Missing, match=expected):
        await little.time(text, Lease(POOL, home), effort=Effort(processes=1))


async def test_who_begins_while_its_many_threads_are_placed_gains_nothing(
    host: OrdinaryHost, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    await times(RIGHT)
    monkeypatch.setattr(process_module, "spread", lambda pid: time.sleep(0.5))
    # The calls before take longer than it waits for them, and shorter than its threads are placed.
    assert await asyncio.to_thread(host._baselines[0].process.time, 1, 20.0, warm=500) > 400_000_000


async def test_who_rested_and_wakes_for_a_moment_is_not_restless(
    host: OrdinaryHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await host._process("candidate", "the finished file", CONFINED)
    for seen, is_restless in (([True, False, False, True], False), ([True] * 10_000, True)):
        states = iter(seen)
        for module in (idle_check, process_module):
            monkeypatch.setattr(module, "runs", lambda pid, states=states: next(states))
        with pytest.raises(Missing, match="computes while") if is_restless else contextlib.nullcontext():
            process.wait_until_idle()
    await process.close()


@pytest.mark.parametrize(
    ("load", "expected"), [(0.5, "timed"), (11.4, "timed, or waits for a core: the load is 11 on 2")]
)
async def test_on_a_busy_machine_who_does_not_rest_may_be_waiting(
    load: float, expected: str, host: OrdinaryHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await host._process("candidate", "the finished file", CONFINED)
    await process.close()
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert str(process.restless()) == f"the finished file computes while others are {expected}"
