"""Outputs from a candidate to the reference; blocks of a device's memory are checked on one (tests/device)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.harness.tensors import tensor_placement
from kernelswarm.hardware.harness.tensors.output_descriptions import describe, probes
from kernelswarm.hardware.harness.tensors.output_transfer import Written, copy_out, written
from kernelswarm.hardware.harness.tensors.tensor_placement import current_device
from kernelswarm.hardware.processes.sealing import may_change

OUTPUTS = (torch.arange(7, dtype=torch.uint8), torch.randn(5, 3), None, 2.5, torch.randn(4, 6).t(), torch.ones(0))


@pytest.fixture
def file() -> Iterator[int]:
    descriptor = copy_out(OUTPUTS, current_device())
    yield descriptor
    os.close(descriptor)


def test_tensors_lie_one_behind_the_other(file: int) -> None:
    size = 7 + 60 + 96
    assert os.fstat(file).st_size == size
    with written(file, size) as outputs:
        assert bytes(outputs.part(0, 7).tolist()) == bytes(range(7))
        assert torch.equal(outputs.part(7, 60).clone().view(torch.float32).view(5, 3), OUTPUTS[1])
        assert torch.equal(outputs.part(67, 96).clone().view(torch.float32).view(6, 4), OUTPUTS[4])
        assert bytes(outputs.few(3, 2).tolist()) == b"\x03\x04"


def test_what_is_small_on_an_accelerator_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of buffers, each of which was waited for: the bytes are the same."""
    generator = torch.Generator().manual_seed(0)
    buffers = [torch.randn(3, size, generator=generator).t() for size in range(1, 90)]
    large = torch.randn(200, 100, generator=generator)
    others = [torch.tensor(True), torch.tensor(7), torch.tensor([1 + 2j]), large[::2], torch.tensor([1 + 2j]).conj()]
    outputs = [*buffers, None, large, torch.ones(0), *others]
    device = current_device()

    def read() -> tuple[bytes, object]:
        file = copy_out(outputs, device)
        try:
            return os.pread(file, 1 << 20, 0), probes(outputs, device)
        finally:
            os.close(file)

    one_by_one = read()
    monkeypatch.setattr(tensor_placement, "HOST", "nowhere")
    assert sum(tensor_placement.is_small(output, device) for output in outputs) == len(buffers) + 4
    assert read() == one_by_one


def test_what_was_handed_over_can_be_changed_by_nobody(file: int) -> None:
    assert not may_change(file)
    with pytest.raises(PermissionError):
        os.pwrite(file, b"later", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(file, 1)


def test_what_its_maker_may_still_change_is_told(tmp_path: Path) -> None:
    unsealed = os.memfd_create("outputs", os.MFD_ALLOW_SEALING)
    ordinary = os.open(tmp_path / "outputs", os.O_RDWR | os.O_CREAT)
    nothing = os.open("/dev/zero", os.O_RDONLY)
    assert may_change(unsealed) and may_change(ordinary) and not may_change(nothing)
    for descriptor in (unsealed, ordinary, nothing):
        os.close(descriptor)


def test_what_is_missing_reads_as_ones(file: int) -> None:
    with written(file, 1000) as outputs:
        assert outputs.part(160, 10).tolist()[3:] == [255] * 7
        assert outputs.few(161, 10).numel() == 2


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_what_is_no_memory_reads_as_ones(path: str) -> None:
    """A candidate's process may send any descriptor; reading some would never end."""
    with Path(path).open("rb") as device_file:
        assert Written(device_file.fileno(), 64).part(0, 64).tolist() == [255] * 64


def test_a_pipe_is_not_waited_for() -> None:
    out, into = os.pipe()
    try:
        assert Written(out, 64).part(8, 8).tolist() == [255] * 8
    finally:
        os.close(out)
        os.close(into)


@pytest.mark.parametrize("lazy", [torch.zeros(3, dtype=torch.complex64).conj(), torch._neg_view(torch.ones(3))])
def test_a_conjugate_that_is_yet_to_be_taken_is_no_answer(lazy: torch.Tensor) -> None:
    """Its memory is read from outside, where nobody knows."""
    assert describe(lazy, current_device()).kind == "other"
    assert describe(lazy.resolve_conj().resolve_neg(), current_device()).kind == "tensor"
