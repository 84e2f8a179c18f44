"""What making a case leaves behind: memory is handed back when nothing of the case but its oracle is held any more."""

import gc
import os
from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.harness.children import reference
from kernelswarm.hardware.harness.inputs.variants import NORMAL
from kernelswarm.hardware.harness.messages.commands import MakeCase, Open
from kernelswarm.hardware.harness.tensors.tensor_placement import TensorDevice
from kernelswarm.schemas import ProblemFormat

SIZE = 54_321
SOURCE = f"""
import torch

shapes = {{"main": dict(size={SIZE})}}

def inputs(generator, size):
    return [torch.rand(size, generator=generator)]

def reference(x):
    return torch.where(x >= 0, x, torch.nan)
"""


def held() -> int:
    """Tensors of that many elements. Not ``isinstance``, which runs code of whatever object it is asked about."""
    return sum(type(value) is torch.Tensor and value.numel() == SIZE for value in gc.get_objects())


class Tidied(TensorDevice):
    """Counts the inputs and outputs that are held whenever memory is handed back."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[int] = []

    def tidy(self) -> None:
        self.held.append(held())


@pytest.mark.parametrize(("kind", "is_refused"), [(NORMAL, False), ("strided", False), ("centred", True)])
def test_memory_is_handed_back_when_the_oracle_alone_is_held(
    kind: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tensor_device = Tidied()
    monkeypatch.setattr(reference, "current_device", lambda: tensor_device)
    process = reference._Reference()
    process.open(Open(name="p", source=SOURCE, format=ProblemFormat.function, seed=1, device="cpu"), [])
    gc.collect()
    before = held()

    case, files = process.make_case(MakeCase(case=0, shape="main", seed=3, kind=kind), [])

    for file in files:
        os.close(file)
    assert bool(case.refused) is is_refused, case.refused
    assert len(tensor_device.held) == 1
    # An oracle, its weights, and where numbers are special: a handful of the case's own, nothing of its making.
    assert tensor_device.held[0] - before <= (0 if is_refused else 4)
