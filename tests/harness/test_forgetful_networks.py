"""Networks whose answer hardly depends on their input: other weights where they help, a refusal where not."""

from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inputs.variants import SPREAD
from kernelswarm.hardware.harness.messages.commands import Open
from kernelswarm.hardware.harness.reference.derived import derive
from kernelswarm.hardware.harness.reference.problem import open_reference
from kernelswarm.hardware.harness.reference.weights import variance_exponents
from kernelswarm.hardware.ordinary.host import CONSTRUCTOR
from kernelswarm.hardware.ordinary.program import _Problem
from kernelswarm.schemas import ProblemError, ProblemFormat, Verdict, VerifyReport

from .conftest import problem_from

on_device = pytest.mark.asyncio(loop_scope="session")

# In float32 its answer to one row differs from that to another in the third digit; in bfloat16 not at all.
FORGETFUL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 10)).to(torch.bfloat16)

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.rand(8, 64).to(torch.bfloat16)]


def get_init_inputs():
    return [64, 12]
"""

HONEST = FORGETFUL.replace("class Model(", "class ModelNew(")
CONSTANT = HONEST.replace("return self.layers(x)", "return self.layers(torch.zeros_like(x[:1])).expand(len(x), 10) + 0")
BLIND = FORGETFUL.replace("self.layers(x)", "self.layers(torch.ones_like(x) + 0 * x)")


async def _judged(device: Device, folder: Path, kernel: str) -> VerifyReport:
    problem = problem_from(folder, FORGETFUL, "forgetful")
    await device.validate_problem(problem)
    report, _ = await device.compile(kernel, "cpp")
    return await device.verify(problem, kernel, report)


@on_device
async def test_a_network_that_forgets_its_input_gets_weights_that_keep_it(device: Device, tmp_path: Path) -> None:
    facts = await device.validate_problem(problem_from(tmp_path, FORGETFUL, "forgetful"))

    assert len(facts.weight_exponents) >= 12 and set(facts.weight_exponents) <= set(facts.parameters)
    assert not any(name.endswith("bias") for name in facts.weight_exponents)
    assert facts.distance is not None and facts.distance > 1
    assert any(kind.name == SPREAD and not kind.refused for kind in facts.input_kinds)


@on_device
async def test_an_honest_network_is_right_with_them_and_a_constant_is_wrong(device: Device, tmp_path: Path) -> None:
    honest = await _judged(device, tmp_path, HONEST)
    constant = await _judged(device, tmp_path, CONSTANT)

    assert honest.verdict is Verdict.correct, honest.evidence
    assert SPREAD in {case.inputs for case in honest.cases}
    assert constant.verdict is Verdict.wrong_numbers
    assert constant.evidence is not None and constant.evidence.inputs == "", "its usual inputs show it already"


@on_device
async def test_a_module_that_makes_its_own_weights_is_told_so(device: Device, tmp_path: Path) -> None:
    own = HONEST.replace("self.layers = nn", "self.unused = nn.Parameter(torch.zeros(3))\n        self.layers = nn")
    report = await _judged(device, tmp_path, own)

    assert report.verdict is Verdict.load_error and report.evidence is not None
    assert "ModelNew takes none of the reference's weights" in report.evidence.message


@on_device
async def test_facts_of_another_host_bring_the_weights_along(device: Device, tmp_path: Path) -> None:
    problem = problem_from(tmp_path, FORGETFUL + "\n# elsewhere\n", "forgetful")
    facts = await device.validate_problem(problem)
    await device.forget(problem)
    report, _ = await device.compile(CONSTANT, "cpp")

    assert (await device.verify(problem, CONSTANT, report, facts)).verdict is Verdict.wrong_numbers


@on_device
async def test_a_network_that_does_not_look_at_its_input_is_refused_with_the_figure(
    device: Device, tmp_path: Path
) -> None:
    with pytest.raises(ProblemError) as caught:
        await device.validate_problem(problem_from(tmp_path, BLIND, "blind"))

    assert "blind.py decides nothing: the first row everywhere passes" in str(caught.value)
    assert " error bounds at most, also with weights that keep the variance" in str(caught.value)


@on_device
async def test_one_answer_for_all_inputs_is_a_wrong_answer(device: Device, tmp_path: Path) -> None:
    source = (
        "import torch\nshapes = {'main': dict(n=64)}\n"
        "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
        "def reference(x): return torch.arange(len(x)) * 0.37 + 1e-9 * x\n"
    )

    with pytest.raises(ProblemError, match=r"the answer to other inputs passes .* off by 0\.0[0-9]* error bounds"):
        await device.validate_problem(problem_from(tmp_path, source, "ignores"))


def test_scaled_layers_keep_the_variance_and_only_powers_of_two_change_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    problem = Open(name="forgetful", format=ProblemFormat.kernelbench, source=FORGETFUL, seed=3)
    reference = open_reference(problem)
    own = {name: weight.clone() for name, weight in reference.module.named_parameters()}  # type: ignore[union-attr]

    with torch.no_grad():
        exponents = variance_exponents(reference, reference.draw("main", 1))
    scaled = open_reference(Open(**{**_fields(problem), "weight_exponents": exponents}))

    assert reference.module is not None and scaled.module is not None
    assert all(torch.equal(own[name], weight) for name, weight in reference.module.named_parameters())
    for name, weight in scaled.module.named_parameters():
        assert torch.equal(weight, own[name] * 2.0 ** exponents.get(name, 0))
    with torch.no_grad():
        hidden = scaled.module.layers[:-1](scaled.draw("main", 2)[0])
    assert 0.3 < float(hidden.float().square().mean().sqrt()) < 3


def test_ordinary_processes_have_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = {
        "device": "cpu",
        "name": "forgetful",
        "problem": FORGETFUL,
        "is_module": True,
        "constructor": CONSTRUCTOR,
        "shape": "main",
        "seed": 5,
    }

    own = _Problem({**command, "weight_exponents": {}})._model.state_dict()
    scaled = _Problem({**command, "weight_exponents": {"layers.0.weight": 3}})._model.state_dict()

    assert torch.equal(scaled["layers.0.weight"], own["layers.0.weight"] * 8)
    assert all(torch.equal(scaled[name], own[name]) for name in own if name != "layers.0.weight")


def test_spread_rows_differ_in_size_and_keep_their_signs() -> None:
    x, alone = torch.rand(16, 32), torch.rand(32)

    changed, factor = derive([x, alone], SPREAD, 1) or []

    ratio = changed / x
    assert torch.allclose(ratio, ratio[:, :1].expand_as(ratio)) and bool((changed >= 0).all())
    assert float(ratio.max() / ratio.min()) > 1000
    assert float((factor / alone).std()) < 1e-5


def _fields(problem: Open) -> dict[str, object]:
    return {field: getattr(problem, field) for field in problem.__struct_fields__}
