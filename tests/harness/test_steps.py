"""The inputs of a call are there once the call before it has answered, and outputs are read at that moment."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from kernelswarm.hardware.harness.messages.batch import Batch, Keep, Kept, Made
from kernelswarm.hardware.harness.timing import steps
from kernelswarm.hardware.harness.timing.freezing import Frozen
from kernelswarm.hardware.harness.timing.steps import NONSENSE, timed_one_by_one
from kernelswarm.hardware.processes import wire

CALLS = 6
PROGRAM = """
import ctypes, mmap, os, socket, sys, threading
from kernelswarm.hardware.harness.messages.batch import Batch, Form, Made
from kernelswarm.hardware.processes import wire
from kernelswarm.hardware.processes.messages import Failure

channel, file, conduct = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
inputs = mmap.mmap(file, 6, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
outputs = (ctypes.c_ubyte * 6)()
if conduct == "another thread runs":
    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
command, _ = wire.receive(channel, Batch)
form = (Form(kind="tensor", type_name="torch.Tensor", dtype="uint8", shape=(1,), stride=(1,)),)
waiting = []
for call in range(command.calls):
    watches = conduct == f"watches the inputs of {call}"
    while watches and not inputs[call]:
        pass
    if call and not watches:
        channel.recv(1)
    if conduct == "looks ahead":
        outputs[call] = 2 * inputs[command.calls - 1]
    elif conduct == "puts calls off" and call < command.calls - 1:
        waiting.append(call)
    else:
        for late in [*waiting, call]:
            outputs[late] = 2 * inputs[late]
    if conduct == "fails" and call == 3:
        wire.send(channel, Failure(kind="raised", message="not this one", log=""))
        continue
    if conduct == "ends" and call == 3:
        os._exit(1)
    made = Made(forms=() if call else (form,), calls=((0, ctypes.addressof(outputs) + call),))
    if conduct == "answers for two":
        made = Made(forms=made.forms, calls=made.calls * 2)
    if conduct == "says much":
        made = Made(forms=made.forms, calls=((*made.calls[0], *range(10_000)),))
    channel.sendall(wire.frame(made) * (2 if conduct == f"answers ahead of {call}" else 1))
channel.recv(1)
"""


@contextmanager
def _process(conduct: str, file: int) -> Iterator[tuple[Frozen, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arguments = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(file), conduct]
        with subprocess.Popen(arguments, pass_fds=(theirs.fileno(), file)) as process:
            theirs.close()
            frozen = Frozen(process.pid)
            try:
                yield frozen, ours
            finally:
                frozen.close()
                process.kill()


def _timed(conduct: str, checked: tuple[int, ...]) -> tuple[Kept, list[bytes]]:
    """How its calls went on the inputs 1 to 6, and the outputs that were read."""
    file = os.memfd_create("inputs")
    os.write(file, bytes([1, 0, 0, 0, 0, 0]))
    request = wire.frame(Batch(calls=CALLS, one_by_one=True))
    with _process(conduct, file) as (process, channel):
        keep = Keep(
            pid=process.pid, arena=0, sets=tuple(range(CALLS)), checked=checked, most_bytes=8, request=request,
            seconds=60.0, one_by_one=True,
        )  # fmt: skip
        assert process.stop(60.0)

        def fill(call: int) -> None:
            os.pwrite(file, bytes([call + 1]), call)
            if conduct == f"watches the inputs of {call}":
                select.select([channel], [], [])

        reply, files = timed_one_by_one(process, channel, keep, fill)
    contents = [os.pread(output, 8, 0) for output in files]
    wire.close_all([*files, file])
    return reply, contents


def test_each_call_is_timed_and_those_that_are_checked_are_read() -> None:
    reply, outputs = _timed("", (1, 4))
    assert len(reply.steps_ns) == CALLS and reply.ns == sum(reply.steps_ns) and not reply.late
    assert outputs == [b"\x04", b"\x0a"] and reply.problems == ("", "")
    answer = msgspec.msgpack.decode(reply.answer, type=Made)
    assert len(answer.calls) == CALLS and len(answer.forms) == 1 and answer.forms[0][0].shape == (1,)


def test_inputs_of_later_calls_are_not_there_yet() -> None:
    _, outputs = _timed("looks ahead", (0, 4, 5))
    assert outputs == [b"\x00", b"\x00", b"\x0c"]


def test_who_answers_before_it_computes_is_seen() -> None:
    _, outputs = _timed("puts calls off", (0, 4, 5))
    assert outputs == [b"\x00", b"\x00", b"\x0c"]


@pytest.mark.parametrize(("conduct", "least", "most"), [("", 0, 0), ("another thread runs", CALLS - 2, CALLS)])
def test_threads_that_run_before_the_inputs_are_there_are_seen(
    monkeypatch: pytest.MonkeyPatch, conduct: str, least: int, most: int
) -> None:
    monkeypatch.setattr(steps, "LOOKED_SHARE", 1.0)
    reply, _ = _timed(conduct, ())
    assert reply.looked == tuple(range(1, CALLS))
    assert least <= reply.restless <= most


def test_its_threads_may_run_where_they_might_before() -> None:
    own = os.sched_getaffinity(0)
    _timed("", ())
    assert os.sched_getaffinity(0) == own


@pytest.mark.parametrize(
    "conduct", ["answers ahead of 2", "answers ahead of 5", "answers for two", "watches the inputs of 3"]
)
def test_who_answers_out_of_turn_has_said_nonsense(conduct: str) -> None:
    reply, outputs = _timed(conduct, (0,))
    assert reply.answer == NONSENSE and not reply.steps_ns and outputs == []


def test_what_is_said_of_all_calls_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LONGEST_ANSWER", 100_000)
    reply, outputs = _timed("says much", (0,))
    assert reply.late and not reply.answer and outputs == []


def test_a_call_that_fails_is_the_answer() -> None:
    reply, _ = _timed("fails", (0,))
    assert b"not this one" in reply.answer


def test_who_ends_is_not_waited_for() -> None:
    with pytest.raises((EOFError, ConnectionError, ProcessLookupError)):
        _timed("ends", ())
