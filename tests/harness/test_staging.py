"""What is large goes between main memory, files and devices in parts; nothing of it is lost on the way."""

import ctypes
import os
from collections.abc import Callable

import pytest
import torch

from kernelswarm.hardware.harness.tensors import tensor_placement, values
from kernelswarm.hardware.harness.tensors.staging import Staging
from kernelswarm.hardware.harness.tensors.tensor_placement import Accelerator

DEVICE = torch.device("cpu")
SIZES = [1, 99, 100, 101, 1000, 1050]


def _bytes(size: int) -> torch.Tensor:
    return torch.randint(0, 255, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))


@pytest.mark.parametrize("size", SIZES)
def test_up_and_down(size: int) -> None:
    staging, source, there = Staging(DEVICE, 100), _bytes(size), torch.zeros(size, dtype=torch.uint8)

    staging.up(source.data_ptr(), there)
    back = b"".join(ctypes.string_at(address, count) for address, count in staging.down(there))

    assert torch.equal(there, source)
    assert back == bytes(source.tolist())


@pytest.mark.parametrize("size", SIZES)
def test_a_single_other_byte_is_seen(size: int) -> None:
    staging, source = Staging(DEVICE, 100), _bytes(size)
    there = source.clone()

    assert staging.same(source.data_ptr(), there)
    there[-1] += 1
    assert not staging.same(source.data_ptr(), there)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_that_ends_too_early_reads_as_ones(size: int) -> None:
    file = os.memfd_create("outputs")
    source = _bytes(size)
    os.write(file, b"head" + bytes(source.tolist()))

    whole = Staging(DEVICE, 100).read(file, 4, size)
    more = Staging(DEVICE, 100).read(file, 4, size + 250)
    os.close(file)

    assert torch.equal(whole, source)
    assert torch.equal(more[:size], source) and bool((more[size:] == 255).all())


def test_large_tensors_are_packed_as_they_lie() -> None:
    wide = torch.randn(3000, 2100)
    views = [wide[:, :1999], wide.t(), torch.randn(7)]

    packed, file = values.pack(views)
    unpacked = values.unpack(packed, values.MappedFile(file, packed.size))
    os.close(file)

    assert packed.size > values._LARGE_WRITE
    assert [tensor.stride() for tensor in unpacked] == [tensor.stride() for tensor in views]
    assert all(torch.equal(tensor, view) for tensor, view in zip(unpacked, views, strict=True))


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """Its code as it is, in main memory, and everything of more than 100 bytes goes in parts."""
    monkeypatch.setattr(tensor_placement, "STAGED_BYTES", 100)
    placement = object.__new__(Accelerator)
    placement.device = DEVICE
    placement.__dict__["_staging"] = Staging(DEVICE, 100)
    return placement


@pytest.mark.parametrize("rows", [1, 40])
def test_an_accelerator_holds_what_it_was_filled_with(accelerator: Accelerator, rows: int) -> None:
    source = torch.randn(rows, 11)
    address, size = source.data_ptr(), 4 * source.numel()

    there = accelerator.to_device(source).clone()
    accelerator.fill(there, address, size)

    assert torch.equal(there, source)
    assert accelerator.holds(there, address, size)
    there[-1, -1] += 1
    assert not accelerator.holds(there, address, size)


@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:], lambda x: x.t(), lambda x: x[:, 3:7]])
def test_elements_of_a_view_arrive_in_order(
    accelerator: Accelerator, rows: int, view: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    tensor = view(torch.randn(rows, 11))
    file = os.memfd_create("outputs")
    position = 3

    for address, size in accelerator.elements(tensor):
        values.write_bytes(file, address, size, position)
        position += size
    read = accelerator.from_file(file, 3, position - 3)
    os.close(file)

    assert torch.equal(read.view(torch.float32), tensor.contiguous().view(-1))
