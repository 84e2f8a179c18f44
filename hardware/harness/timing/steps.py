"""Times the calls of a batch one by one: the inputs of a call are written after the answer of the call before.

Nothing can be computed together there, since the inputs of later calls do not exist yet. Each answer says where the
outputs lie. Those of some calls, which only the supervisor knew, are read at that moment, with all threads stopped: who
answers before it has computed is seen.

The timekeeper waits on the core of the process's first thread: they take turns, and no other core has to wake up.
"""

import random
import socket
import time
from collections.abc import Callable

import msgspec

from ...processes import wire
from ...processes.messages import Failure
from ..messages.batch import Form, Keep, Kept, Made
from .answers import LONGEST_ANSWER, payload_of, read_outputs
from .freezing import Frozen
from .placement import sharing_a_core

STOP_SECONDS = 5.0
"""Within so long every thread of a process stands still, or something is wrong with it."""
RELEASE = b"\0"
"""The inputs of the next call are there, and like those of the last one."""
LOOKED_SHARE = 0.25
"""Before so many calls it is looked whether other threads run. That cools caches: these calls do not count."""
NONSENSE = b"\xc1"
"""No MessagePack: what the supervisor is given where answers are none."""


class OutOfTurn(Exception):
    """It answered before it was asked, or something that is no answer to one call."""


class _Answers:
    """The answers of the calls so far, joined as those of a batch."""

    def __init__(self) -> None:
        self.forms: list[tuple[Form, ...]] = []
        self.calls: list[tuple[int, ...]] = []

    def add(self, answer: Made) -> Made:
        """Add that of one call; returns it with all forms, of which it names one.

        Raises:
            OutOfTurn: it is of another number of calls.
        """
        if len(answer.calls) != 1 or len(answer.forms) > 1:
            raise OutOfTurn
        self.forms += answer.forms
        self.calls += answer.calls
        return Made(forms=tuple(self.forms), calls=answer.calls)

    def payload(self) -> bytes:
        """As the process would have answered for all calls."""
        return wire.frame(Made(forms=tuple(self.forms), calls=tuple(self.calls)))[wire.HEADER.size :]


def timed_one_by_one(
    process: Frozen, channel: socket.socket, command: Keep, fill: Callable[[int], None]
) -> tuple[Kept, list[int]]:
    """Time the calls of a stopped process; ``fill`` writes the inputs of one, those of the first are there.

    Raises:
        EOFError, ConnectionError, ProcessLookupError: the process has ended.
    """
    answers = _Answers()
    steps: list[int] = []
    problems: list[str] = []
    files: list[int] = []
    looked: list[int] = []
    restless, left = 0, LONGEST_ANSWER

    def reply(payload: bytes) -> Kept:
        _stop(process)
        return Kept(
            ns=sum(steps),
            answer=payload,
            steps_ns=tuple(steps),
            looked=tuple(looked),
            restless=restless,
            problems=tuple(problems),
        )

    deadline = time.monotonic() + command.seconds
    try:
        with sharing_a_core(process.pid) as (pin, unpin):
            for call in range(len(command.sets)):
                if call:
                    if random.random() < LOOKED_SHARE:
                        looked.append(call)
                        restless += process.runs_beside()
                    pin()
                    # A thread that watches the arena may begin at once, beside the turn: it has run before, too.
                    fill(call)
                    _expect_silence(channel)
                channel.settimeout(max(deadline - time.monotonic(), 1e-3))
                began = time.perf_counter_ns()
                if call:
                    channel.sendall(command.releases[call - 1] if command.releases else RELEASE)
                    unpin()
                else:
                    channel.sendall(command.request)
                    process.go_on()
                payload = payload_of(channel, left)
                steps.append(time.perf_counter_ns() - began)
                left -= len(payload)
                answer: Made | Failure = wire.unframe(payload, Made | Failure)
                if isinstance(answer, Failure):
                    return reply(payload), files
                answer = answers.add(answer)
                if call in command.checked:
                    _stop(process)
                    problem, file = read_outputs(process, answer, 0, command.most_bytes)
                    problems.append(problem)
                    files.append(file)
                    process.go_on()
        kept = reply(answers.payload())
        # Who once answered ahead, unseen, has one answer more than was asked for.
        _expect_silence(channel)
        return kept, files
    except (TimeoutError, OverflowError):
        wire.close_all(files)
        process.stop(STOP_SECONDS)
        return Kept(ns=0, answer=b"", late=True), []
    except (msgspec.MsgspecError, UnicodeDecodeError, OutOfTurn):
        wire.close_all(files)
        process.stop(STOP_SECONDS)
        return Kept(ns=0, answer=NONSENSE), []
    except BaseException:
        wire.close_all(files)
        raise


def _expect_silence(channel: socket.socket) -> None:
    """Nothing may come before the inputs of the next call are there."""
    channel.settimeout(0)
    try:
        if channel.recv(1, socket.MSG_PEEK):
            raise OutOfTurn
    except BlockingIOError:
        return
    raise EOFError


def _stop(process: Frozen) -> None:
    if not process.stop(STOP_SECONDS):
        raise TimeoutError
