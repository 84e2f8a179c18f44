"""Where inputs of KernelBench problems are drawn: on the accelerator, unless the file minds; the same each time."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference import problem as reference_problem
from kernelswarm.schemas import ProblemFormat

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, n):
        return x * n

def get_inputs():
    drawn.append(torch.empty(0).device.type)
    return [torch.rand(3, 4), 2]

drawn = []
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem's file is written where its process works."""
    monkeypatch.chdir(tmp_path)


def opened(source: str) -> tuple[reference_problem.ReferenceProblem, list[str]]:
    problem = Open(name="p", source=source, format=ProblemFormat.kernelbench, seed=1, device="cpu")
    reference = reference_problem.open_reference(problem)
    return reference, reference._get_inputs.__globals__["drawn"]  # type: ignore[attr-defined]


def on(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor_device = SimpleNamespace(device=torch.device(device), tidy=lambda: None)
    monkeypatch.setattr(reference_problem, "current_device", lambda: tensor_device)


def test_the_device_draws_and_the_inputs_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, drawn = opened(SOURCE)
    before = reference.draw("main", 7)
    # Stands for a device that can draw: nothing else here can.
    on("cpu", monkeypatch)
    monkeypatch.setattr(reference_problem, "HOST", "somewhere else")
    inputs = reference.draw("main", 7)
    assert torch.equal(inputs[0], before[0]) and inputs[1] == 2 and drawn == ["cpu", "cpu"]


def test_a_file_that_minds_draws_in_main_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, drawn = opened(SOURCE)
    before = reference.draw("main", 7)
    on("meta", monkeypatch)  # nothing can be had of what is drawn there
    inputs = reference.draw("main", 7)
    assert torch.equal(inputs[0], before[0]) and drawn == ["cpu", "meta", "cpu"]
