"""Which batches have outputs read: no process gets through with few of them, however large they are."""

import pytest

from kernelswarm.hardware.harness.timing.read_batches import GROUP, QUICK_BYTES, ReadBatches

BATCHES = 300


def read(size: int, *, is_thorough: bool = False) -> list[bool]:
    batches = ReadBatches(is_thorough)
    return [batches.is_next_read(size) for _ in range(BATCHES)]


@pytest.mark.parametrize("size", [0, 1 << 20, QUICK_BYTES, 1 << 40])
def test_of_a_finalist_every_batch_is_read(size: int) -> None:
    assert all(read(size, is_thorough=True))


def test_small_outputs_are_read_in_every_batch() -> None:
    assert all(read(QUICK_BYTES // 8))


def test_of_the_largest_outputs_one_batch_of_a_group_is_read() -> None:
    batches = read(1 << 40)
    groups = [batches[begin : begin + GROUP] for begin in range(0, BATCHES, GROUP)]
    assert all(any(group) for group in groups)
    assert sum(batches) < BATCHES // 2
    assert {group.index(True) for group in groups} == set(range(GROUP)), "no place of a group is safe"


def test_chance_has_more_of_them_read_where_outputs_are_not_that_large() -> None:
    assert BATCHES // 3 < sum(read(QUICK_BYTES // 4)) < BATCHES
