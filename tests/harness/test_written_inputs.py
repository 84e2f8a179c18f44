"""Inputs that timed calls write lie in the arena: nothing is put back or copied in what is timed."""

import ctypes
import mmap
import os
import socket
import struct
from collections.abc import Iterator

import pytest
import torch

from kernelswarm.hardware.harness.calls.batches import Batches
from kernelswarm.hardware.harness.calls.restarts import Restarts
from kernelswarm.hardware.harness.messages.batch import Batch, Lay, MakeArena, Warm
from kernelswarm.hardware.harness.messages.state import INPUT, StateEntry
from kernelswarm.hardware.harness.tensors import values
from kernelswarm.hardware.harness.timing.timekeeper import Arena

STATE = (StateEntry(name="", kind=INPUT, tensor=0),)
SETS = 4


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Sets of one page; the numbers of each of the eight in the pool are the set's."""
    pool = os.memfd_create("pool")
    os.write(pool, b"".join(torch.full((1024,), float(n)).numpy().tobytes() for n in range(8)))
    made = Arena(MakeArena(stride=mmap.PAGESIZE, pool=8, sets=SETS, warm=2, is_written=True), pool)
    yield made
    made.close()
    os.close(pool)


def add_one(x: torch.Tensor) -> None:
    x.add_(1.0)


@pytest.fixture
def laid(arena: Arena) -> Iterator[tuple[Batches, Restarts]]:
    described, file = values.pack([torch.zeros(1024)])
    os.close(file)
    restarts = Restarts(STATE, None, lambda: None)
    with socket.socket() as channel:
        batches = Batches(channel)
        batches.lay(Lay(inputs=(described,), stride=mmap.PAGESIZE, sets=SETS, state=STATE), arena.file, restarts)
        yield batches, restarts


def read(address: int) -> float:
    return ctypes.c_float.from_address(address).value


def test_what_a_call_leaves_is_read_where_its_input_lies(arena: Arena, laid: tuple[Batches, Restarts]) -> None:
    batches, restarts = laid
    call = restarts.before(add_one)
    for sets in ([5, 6, 7, 5], [7, 7, 6, 6]):
        arena.fill(sets)
        made = batches.make(call, Batch(calls=SETS))
        # None, which the call returned, and its input.
        assert [form.kind for form in made.forms[0]] == ["none", "tensor"]
        assert [read(address) for _, _, address in made.calls] == [number + 1.0 for number in sets]
        assert len({address for *_, address in made.calls}) == SETS
        assert [struct.unpack_from("f", arena._memory, slot * mmap.PAGESIZE)[0] for slot in range(SETS)] == [
            number + 1.0 for number in sets
        ]


def test_untimed_calls_begin_from_the_start_and_leave_the_arena_alone(
    arena: Arena, laid: tuple[Batches, Restarts]
) -> None:
    batches, restarts = laid
    before, met = bytes(arena._memory), []

    def call(x: torch.Tensor) -> None:
        met.append(float(x[0]))
        add_one(x)

    batches.warm(restarts.before(call), Warm(calls=3 * SETS))
    assert met == [0.0, 1.0] * (3 * SETS // 2) and bytes(arena._memory) == before
