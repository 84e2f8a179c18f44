"""Outputs that are let go are spoiled in some places, and nothing else is."""

import numpy
import pytest
import torch

from kernelswarm.hardware.harness.calls.freed_outputs import PLACES, spoil


def _changed(numbers: torch.Tensor) -> int:
    return int((numbers != 0).sum())


@pytest.mark.parametrize("form", ["tensor", "tuple", "list"])
def test_what_nobody_holds_is_spoiled(form: str) -> None:
    outputs = [{"tensor": lambda x: x, "tuple": lambda x: (x, 3), "list": lambda x: [x]}[form](torch.zeros(4096))]
    spoil(outputs)
    tensor = outputs[0] if form == "tensor" else outputs[0][0]
    assert 2 <= _changed(tensor) <= 2 * PLACES and bool(tensor.isfinite().all())


def test_what_the_kernel_holds_is_left_alone() -> None:
    kept, whole, array = torch.zeros(64), torch.zeros(64), numpy.zeros(64, dtype=numpy.float32)
    pair = (torch.zeros(64), torch.zeros(64))
    held = pair[0]
    spoil([kept, whole[8:], torch.from_numpy(array), pair, 3, None, torch.zeros(0), torch.zeros(1)])
    assert not _changed(kept) and not _changed(whole) and not array.any() and not _changed(held)
    assert _changed(pair[1])
