"""KernelBench files: weights are made once and shared with the candidate by parameter name."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("shift", torch.randn(features))
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x) * self.scale + self.shift)

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return [32, 0.5]
"""

RIGHT = SOURCE.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")


@pytest.fixture(scope="module")
def kernelbench(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = Path(tmp_path_factory.mktemp("kernelbench")) / "relu.py"
    path.write_text(SOURCE)
    return load_problem(path)


async def test_facts(device: Device, kernelbench: Problem) -> None:
    facts = await device.validate_problem(kernelbench)

    assert facts.signature == ("x",)
    assert {name: fact.shape for name, fact in facts.parameters.items()} == {
        "linear.weight": (32, 32),
        "linear.bias": (32,),
        "shift": (32,),
    }
    assert facts.float64_oracle


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (RIGHT, Verdict.correct),
        (RIGHT.replace("self.linear", "self.dense"), Verdict.load_error),
        (RIGHT.replace("ModelNew", "Model"), Verdict.load_error),
        (RIGHT.replace("torch.relu", "torch.abs"), Verdict.wrong_numbers),
        (RIGHT.replace("features, scale)", "features)").replace("= scale", "= 0.5"), Verdict.load_error),
    ],
)
async def test_verdicts(device: Device, kernelbench: Problem, source: str, verdict: Verdict) -> None:
    report, _ = await device.compile(source, "cpp")

    verified = await device.verify(kernelbench, source, report)

    assert verified.verdict is verdict, verified.evidence


async def test_is_timed(device: Device, kernelbench: Problem) -> None:
    facts = await device.validate_problem(kernelbench)
    report, _ = await device.compile(RIGHT, "cpp")

    profiled = await device.profile(kernelbench, facts, RIGHT, report)

    assert profiled.verdict is Verdict.correct, profiled.evidence
    assert profiled.timing is not None
