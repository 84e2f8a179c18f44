"""Where a candidate has gradients they are the reference's; where it has none it says so, or leaves no graph at all."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCALED = """
import torch
shapes = {"main": dict(rows=24, cols=64), "ragged": dict(rows=5, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator)]
def reference(x, w):
    return torch.tanh(x) * w
"""
ROUNDED = """
import torch
shapes = {"main": dict(rows=24)}
def inputs(generator, rows):
    return [torch.randn(rows, 8, generator=generator)]
def reference(x):
    return x.argmax(-1), x.detach() * 2
"""
MODEL = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.frozen = nn.Parameter(torch.randn(features), requires_grad=False)
    def forward(self, x):
        return torch.relu(self.linear(x)) * self.frozen
def get_inputs(): return [torch.randn(16, 32)]
def get_init_inputs(): return [32]
"""
HEAD = """
import torch
def value(x, w): return torch.tanh(x) * w
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return value(x, w)
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        t = torch.tanh(x)
        return GRADIENTS
def kernel(x, w): return Function.apply(x, w)
"""


def with_gradients(text: str) -> str:
    return HEAD.replace("GRADIENTS", text)


HONEST = {
    "plain": "import torch\ndef kernel(x, w): return torch.tanh(x) * w\n",
    "function": with_gradients("g * w * (1 - t * t), (g * t).sum(0)"),
    "backward beside it": """
import torch
def kernel(x, w):
    with torch.no_grad():
        return torch.tanh(x) * w
def backward(x, w, g):
    t = torch.tanh(x)
    return g * w * (1 - t * t), (g * t).sum(0)
""",
}
WITHOUT = {
    "no graph": "import torch\n@torch.no_grad()\ndef kernel(x, w): return torch.tanh(x) * w\n",
    "raises": """
import torch
def kernel(x, w):
    if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad):
        raise NotImplementedError("no gradients")
    return torch.tanh(x) * w
""",
}
WRONG = {
    "of the wrong input": (
        with_gradients("(g * t).sum(0).expand_as(x), (g * w * (1 - t * t)).sum(0)"),
        "gradient of x",
    ),
    "detached branch": ("import torch\ndef kernel(x, w): return torch.tanh(x) * w.detach()\n", "the gradient of w"),
    "scaled": (with_gradients("g * w * (1 - t * t) * 1.001, (g * t).sum(0)"), "the gradient of x"),
    "not accumulated": (
        with_gradients("g * w * (1 - t * t), first((g * t).sum(0))")
        + """
calls = []
def first(gradient):
    calls.append(None)
    return gradient if len(calls) <= 2 else torch.zeros_like(gradient)
""",
        "the gradient of w accumulated over calls",
    ),
    "stale": (
        """
import torch
kept = []
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        kept[:] = [x.detach(), w.detach()]
        return torch.tanh(x) * w
    @staticmethod
    def backward(ctx, g):
        x, w = kept
        t = torch.tanh(x)
        return g * w * (1 - t * t), (g * t).sum(0)
def kernel(x, w): return Function.apply(x, w)
""",
        "the gradient of x",
    ),
    "backward beside it": (
        """
import torch
def kernel(x, w):
    with torch.no_grad():
        return torch.tanh(x) * w
def backward(x, w, g):
    return g * w, None
""",
        "the gradient of x",
    ),
}


async def verified(device: Device, folder: Path, problem: str, candidate: str) -> VerifyReport:
    compiled, _ = await device.compile(candidate, "cpp")
    return await device.verify(problem_from(folder, problem), candidate, compiled)


def problem_from(folder: Path, source: str) -> Problem:
    path = folder / "scaled.py"
    path.write_text(source)
    return load_problem(path)


@pytest.mark.parametrize("kind", HONEST)
async def test_own_gradients_that_are_right_are_its_own(device: Device, tmp_path: Path, kind: str) -> None:
    report = await verified(device, tmp_path, SCALED, HONEST[kind])
    assert (report.verdict, report.gradients) == (Verdict.correct, "own"), report.evidence
    assert all(case.inputs != "gradients" for case in report.cases)


@pytest.mark.parametrize("kind", WITHOUT)
async def test_whoever_has_no_gradients_is_differentiated_by_the_reference(
    device: Device, tmp_path: Path, kind: str
) -> None:
    report = await verified(device, tmp_path, SCALED, WITHOUT[kind])
    assert (report.verdict, report.gradients) == (Verdict.correct, "reference"), report.evidence


@pytest.mark.parametrize("kind", WRONG)
async def test_wrong_gradients_are_a_verdict(device: Device, tmp_path: Path, kind: str) -> None:
    source, gradient = WRONG[kind]
    report = await verified(device, tmp_path, SCALED, source)
    assert report.verdict is Verdict.wrong_gradients
    assert report.evidence is not None and gradient in report.evidence.message
    assert report.evidence.expected and report.evidence.got


async def test_what_the_reference_cannot_differentiate_is_not_asked_for(device: Device, tmp_path: Path) -> None:
    source = "import torch\ndef kernel(x): return x.argmax(-1), x * 2\n"
    report = await verified(device, tmp_path, ROUNDED, source)
    assert (report.verdict, report.gradients) == (Verdict.correct, ""), report.evidence


MODULE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.frozen = torch.nn.Parameter(torch.randn(features), requires_grad=False)
    def forward(self, x):
        return FORWARD
"""


@pytest.mark.parametrize(
    ("forward", "verdict", "gradients"),
    [
        ("self.linear(x).clamp_min(0) * self.frozen", Verdict.correct, "own"),
        ("(self.linear(x).clamp_min(0) * self.frozen).detach()", Verdict.correct, "reference"),
        (
            "(x @ self.linear.weight.T + self.linear.bias.detach()).clamp_min(0) * self.frozen",
            Verdict.wrong_gradients,
            "",
        ),
    ],
)
async def test_gradients_of_parameters(
    device: Device, tmp_path: Path, forward: str, verdict: Verdict, gradients: str
) -> None:
    report = await verified(device, tmp_path, MODEL, MODULE.replace("FORWARD", forward))
    assert (report.verdict, report.gradients) == (verdict, gradients), report.evidence
    if report.evidence is not None:
        assert "the gradient of linear.bias[" in report.evidence.message


BESIDE_ZERO = """
import torch
shapes = {"main": dict(rows=64, cols=48)}
def inputs(generator, rows, cols):
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    w = torch.randn(cols, 32, generator=generator, dtype=torch.float64)
    first = w[:, 0]
    x[:ROWS] -= torch.outer(x[:ROWS] @ first / (first @ first), first)
    return [x.float(), w.float()]
def reference(x, w): return torch.relu(x @ w)
"""
REVERSED = "import torch\ndef kernel(x, w):\n    return torch.relu(x.flip(-1) @ w.flip(0))\n"


@pytest.mark.parametrize(
    ("rows", "candidate", "verdict"),
    [
        ("8", REVERSED, Verdict.correct),
        # Of some draws only: others are taken.
        ("int(8 * (x[0, 0] > 0))", REVERSED, Verdict.correct),
        ("8", REVERSED.replace("x.flip(-1)", "x.detach().flip(-1)"), Verdict.wrong_gradients),
        ("8", REVERSED.replace("(x.flip", "(torch.cat([x[:8], x[8:9].detach(), x[9:]]).flip"), Verdict.wrong_gradients),
    ],
)
async def test_gradients_that_hang_on_a_rounding_convict_nobody_and_hide_no_other(
    device: Device, tmp_path: Path, rows: str, candidate: str, verdict: Verdict
) -> None:
    report = await verified(device, tmp_path, BESIDE_ZERO.replace("ROWS", rows), candidate)
    assert report.verdict is verdict, report.evidence
    assert report.gradients == ("own" if verdict is Verdict.correct else "")
