"""Large outputs take memory of earlier ones, and never memory that somebody still holds."""

import math
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
import torch

from kernelswarm.codegen.cpp import kept_memory
from kernelswarm.schemas import TensorMeta

SHAPE = (1024,)
Empty = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What a generated file has, where 4 KiB are large."""
    monkeypatch.setattr(kept_memory, "MAPPED_BYTES", 4096)
    module = ModuleType("generated")
    module.__dict__.update(math=math, sys=sys, threading=threading, torch=torch)
    exec("\n".join(kept_memory.text(1)), module.__dict__)
    return module


@pytest.fixture
def empty(kept: ModuleType) -> Empty:
    function: Empty = kept._empty
    return function


def test_memory_that_nobody_holds_is_taken_again(empty: Empty) -> None:
    first = empty(SHAPE, torch.float32)
    address = first.data_ptr()
    del first
    again = empty((32, 32), torch.int32)
    assert again.data_ptr() == address
    assert again.shape == (32, 32) and again.dtype is torch.int32 and again.is_contiguous()


@pytest.mark.parametrize(
    "hold",
    [
        lambda out: out,
        lambda out: out.view(32, 32)[5:],
        lambda out: out.numpy(),
        lambda out: out.untyped_storage(),
        lambda out: torch.utils.dlpack.to_dlpack(out),
    ],
    ids=["tensor", "view", "numpy", "storage", "dlpack"],
)
def test_memory_that_somebody_holds_is_not(empty: Empty, hold: "Callable[[torch.Tensor], object]") -> None:
    first = empty(SHAPE, torch.float32)
    address = first.data_ptr()
    held = hold(first)
    del first
    assert empty(SHAPE, torch.float32).data_ptr() != address
    del held
    assert empty(SHAPE, torch.float32).data_ptr() == address


def test_a_held_storage_is_not_taken_where_python_counts_differently(
    kept: ModuleType, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.14 on, passing a local variable is no reference."""
    count = sys.getrefcount
    monkeypatch.setattr(kept, "sys", SimpleNamespace(getrefcount=lambda item: count(item) - 2))
    first = empty(SHAPE, torch.float32)
    address = first.data_ptr()
    held = first.untyped_storage()
    del first
    assert empty(SHAPE, torch.float32).data_ptr() != address
    del held
    assert empty(SHAPE, torch.float32).data_ptr() == address


def test_nobody_waits_for_a_thread_that_a_fork_left_behind(kept: ModuleType, empty: Empty) -> None:
    with kept._KEEPING:
        assert empty(SHAPE, torch.float32).shape == SHAPE
    assert len(kept._KEPT[1:]) == 0


def test_memory_that_another_process_may_see_is_not(empty: Empty) -> None:
    first = empty(SHAPE, torch.float32).share_memory_()
    address = first.data_ptr()
    del first
    assert empty(SHAPE, torch.float32).data_ptr() != address


def test_as_much_is_kept_as_two_calls_take(kept: ModuleType, empty: Empty) -> None:
    alive = [empty(SHAPE, torch.float32) for _ in range(5)]
    assert len({tensor.data_ptr() for tensor in alive}) == 5
    assert len(kept._KEPT[1:]) == 2


def test_another_size_and_small_ones_are_made_anew(kept: ModuleType, empty: Empty) -> None:
    first = empty(SHAPE, torch.float32)
    del first
    assert empty((2048,), torch.float32).untyped_storage().nbytes() == 8192
    small = empty((8,), torch.float32)
    assert small.shape == (8,) and all(storage.nbytes() >= 4096 for storage in kept._KEPT[1:])


def test_a_resized_output_is_not_taken_for_what_it_was(empty: Empty) -> None:
    first = empty(SHAPE, torch.float32)
    first.resize_(4096)
    del first
    again = empty(SHAPE, torch.float32)
    assert again.untyped_storage().nbytes() == 4096


def test_threads_never_share_memory(empty: Empty) -> None:
    wrong: list[float] = []

    def work(number: int) -> None:
        for _ in range(300):
            out = empty(SHAPE, torch.float32)
            out.fill_(number)
            if float(out.sum()) != number * 1024:
                wrong.append(float(out.sum()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_made_in_inference_mode_serves_outside_it(empty: Empty) -> None:
    with torch.inference_mode():
        first = empty(SHAPE, torch.float32)
        del first
    again = empty(SHAPE, torch.float32)
    assert not again.is_inference()
    again.requires_grad_()


@pytest.mark.parametrize(("rows", "mapped"), [(8192, True), (8191, False), (131072, True), (131073, False)])
def test_only_outputs_that_are_mapped_anew_are_kept(rows: int, mapped: bool) -> None:
    meta = TensorMeta(dtype="float32", shape=("s0", 1024), example=(rows, 1024))
    assert kept_memory.is_mapped(meta) is mapped
