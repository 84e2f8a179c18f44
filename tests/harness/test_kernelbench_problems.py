"""KernelBench files: weights are made once and shared with the candidate by parameter name."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.dropin.contract import KERNEL_USED
from kernelswarm.hardware.dropin.contract import SWITCHES as CHANGED
from kernelswarm.hardware.harness.timing.effort import Effort
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


@pytest.mark.parametrize("arguments", ['{"features": 32, "scale": 0.5}', '[[32], {"scale": 0.5}]'])
async def test_arguments_of_the_constructor_may_be_named(
    device: Device, kernelbench: Problem, arguments: str, tmp_path: Path
) -> None:
    path = tmp_path / "relu.py"
    path.write_text(SOURCE.replace("[32, 0.5]", arguments).replace("(self, features, ", "(self, features, *, "))
    problem = load_problem(path)
    candidate = RIGHT.replace("features, scale)", "features, *, scale)")
    report, _ = await device.compile(candidate, "cpp")

    verified = await device.verify(problem, candidate, report)
    checks = await device.contract(finish(problem, await device.validate_problem(problem), candidate, verified))

    assert verified.verdict is Verdict.correct, verified.evidence
    assert [check.ok for check in checks if check.name == KERNEL_USED] == [True]


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
        (RIGHT.replace("ModelNew", "Model"), Verdict.load_error),
        (RIGHT.replace("torch.relu", "torch.abs"), Verdict.wrong_numbers),
        (RIGHT.replace("features, scale)", "features)").replace("= scale", "= 0.5"), Verdict.load_error),
    ],
)
async def test_verdicts(device: Device, kernelbench: Problem, source: str, verdict: Verdict) -> None:
    report, _ = await device.compile(source, "cpp")

    verified = await device.verify(kernelbench, source, report)

    assert verified.verdict is verdict, verified.evidence


OTHER_NAMES = RIGHT.replace("self.linear", "self.dense").replace("shift", "offset")
PACKED = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        linear = nn.Linear(features, features)
        shift = torch.randn(features)
        self.packed = nn.Parameter(torch.cat([linear.weight.detach().t() * scale, linear.bias.detach()[None] * scale]))
        self.register_buffer("shift", shift)

    def forward(self, x):
        return torch.relu(torch.addmm(self.packed[-1] + self.shift, x, self.packed[:-1]))
"""


@pytest.mark.parametrize(
    ("source", "weights", "renamed"),
    [
        (RIGHT, "names", {}),
        (
            OTHER_NAMES,
            "order",
            {"linear.weight": "dense.weight", "linear.bias": "dense.bias", "shift": "offset"},
        ),
        (PACKED, "seed", {}),
    ],
)
async def test_weights_are_taken_by_name_or_order_or_made_from_the_same_seed(
    device: Device, kernelbench: Problem, source: str, weights: str, renamed: dict[str, str]
) -> None:
    report, _ = await device.compile(source, "cpp")
    verified = await device.verify(kernelbench, source, report)
    assert verified.verdict is Verdict.correct, verified.evidence
    assert (verified.weights, verified.renamed) == (weights, renamed)


async def test_a_module_that_draws_its_weights_in_another_order_is_wrong(device: Device, kernelbench: Problem) -> None:
    first = "        shift = torch.randn(features)\n"
    source = PACKED.replace(first, "").replace("        linear =", first + "        linear =")
    report, _ = await device.compile(source, "cpp")
    assert (await device.verify(kernelbench, source, report)).verdict is Verdict.wrong_numbers


SWITCHES = "import torch\ntorch.backends.cudnn.benchmark = True\ntorch.set_float32_matmul_precision('high')\n"


async def test_switches_that_a_file_sets_are_its_own_affair(device: Device, kernelbench: Problem) -> None:
    report, _ = await device.compile(SWITCHES + RIGHT, "cpp")
    verified = await device.verify(kernelbench, SWITCHES + RIGHT, report)
    assert verified.verdict is Verdict.correct, verified.evidence


@pytest.mark.thorough
async def test_switches_that_a_file_sets_for_its_user_are_told(device: Device, kernelbench: Problem) -> None:
    facts = await device.validate_problem(kernelbench)
    checks = {check.name: check for check in await device.contract(finish(kernelbench, facts, SWITCHES + RIGHT))}
    assert not checks[CHANGED].ok and "cudnn.benchmark is True instead of False" in checks[CHANGED].detail


@pytest.mark.thorough
@pytest.mark.parametrize("source", [OTHER_NAMES, PACKED])
async def test_a_file_that_has_its_own_names_or_weights_is_handed_over(
    device: Device, kernelbench: Problem, source: str, tmp_path: Path
) -> None:
    facts = await device.validate_problem(kernelbench)
    report, _ = await device.compile(source, "cpp")
    verified = await device.verify(kernelbench, source, report)
    text = finish(kernelbench, facts, source, verified, header="A file.")
    timing, missing = await device.ordinary(kernelbench, facts, text, effort=Effort(processes=1))
    assert timing is not None, missing
    if verified.weights == "seed":
        assert text == f"# A file.\n{source}"
    else:
        checks = {check.name: check for check in await device.contract(text)}
        assert all(check.ok for check in checks.values() if check.is_essential), checks
        assert checks[KERNEL_USED].ok, checks[KERNEL_USED]


async def test_is_timed(device: Device, kernelbench: Problem) -> None:
    facts = await device.validate_problem(kernelbench)
    report, _ = await device.compile(RIGHT, "cpp")

    profiled = await device.profile(kernelbench, facts, RIGHT, report)

    assert profiled.verdict is Verdict.correct, profiled.evidence
    assert profiled.timing is not None
