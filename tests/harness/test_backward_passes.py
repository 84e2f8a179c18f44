"""Problems that ask for gradients: both passes are judged as one call."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.calls.backward import cotangents
from kernelswarm.hardware.ordinary.program import _Problem
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemError, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

GELU = """
import torch
backward = True
shapes = {"main": dict(rows=24, cols=64), "ragged": dict(rows=5, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator), 3]
def reference(x, bias, times):
    return torch.nn.functional.gelu(x + bias) * times
"""
MODEL = """
import torch
import torch.nn as nn
backward = True
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
    def forward(self, x):
        return torch.relu(self.linear(x))
def get_inputs(): return [torch.randn(16, 32)]
def get_init_inputs(): return [32]
"""

BY_HAND = """
import math, torch
def kernel(x, bias, times):
    return torch.nn.functional.gelu(x + bias) * times
def backward(x, bias, times, cotangent):
    y = x + bias
    slope = 0.5 * (1 + torch.erf(y * math.sqrt(0.5))) + y * torch.exp(-0.5 * y * y) / math.sqrt(2 * math.pi)
    grad = slope * cotangent * times
    return grad, grad.sum(0)
"""
FUNCTION = """
import torch
class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, times):
        ctx.save_for_backward(x, bias)
        ctx.times = times
        return torch.nn.functional.gelu(x + bias) * times
    @staticmethod
    def backward(ctx, cotangent):
        x, bias = ctx.saved_tensors
        grad = torch.ops.aten.gelu_backward(cotangent * ctx.times, x + bias)
        return grad, grad.sum(0), None
def kernel(x, bias, times): return Gelu.apply(x, bias, times)
"""

Judge = Callable[[str, str], Awaitable[VerifyReport]]


def _problem(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


@pytest.fixture
def judge(device: Device, tmp_path: Path) -> Judge:
    async def judge(problem: str, candidate: str) -> VerifyReport:
        report, _ = await device.compile(candidate, "cpp")
        return await device.verify(_problem(tmp_path, problem), candidate, report)

    return judge


RIGHT = {
    "by autograd": (GELU, "import torch\ndef kernel(x, b, n): return torch.nn.functional.gelu(x + b) * n\n"),
    "by hand": (GELU, BY_HAND),
    "by a function": (GELU, FUNCTION),
    "a module": (MODEL, MODEL + "class ModelNew(Model): pass\n"),
}


@pytest.mark.parametrize("name", RIGHT)
async def test_right_gradients_are_right(judge: Judge, name: str) -> None:
    report = await judge(*RIGHT[name])

    assert report.verdict is Verdict.correct, report.evidence


WRONG = {
    "gradient of zeros": (Verdict.wrong_numbers, BY_HAND.replace("return grad, grad.sum(0)", "return grad, None")),
    "a factor is left out": (Verdict.wrong_numbers, BY_HAND.replace(" * times\n    return grad", "\n    return grad")),
    "one gradient too few": (Verdict.runtime_error, BY_HAND.replace("return grad, grad.sum(0)", "return grad")),
    "no gradient at all": (
        Verdict.runtime_error,
        "import torch\n@torch.no_grad()\ndef kernel(x, b, n): return torch.nn.functional.gelu(x + b) * n\n",
    ),
    "the cotangent is taken for ones": (Verdict.wrong_numbers, BY_HAND.replace("slope * cotangent", "slope")),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_gradients_are_wrong(judge: Judge, name: str) -> None:
    verdict, candidate = WRONG[name]

    report = await judge(GELU, candidate)

    assert report.verdict is verdict, report.evidence
    assert report.evidence is not None
    if verdict is Verdict.wrong_numbers:
        name = {1: "x", 2: "bias"}[report.evidence.output]
        assert report.evidence.message.startswith(f"the gradient of {name}[")


PUT_OFF = """
promised = []
def kernel(x, bias, times):
    promised.append(torch.zeros_like(x))
    return promised[-1]
def backward(x, bias, times, cotangent):
    promised.pop().copy_(forward(x, bias, times))
    return gradients(x, bias, times, cotangent)
"""
AHEAD = """
import sys
ready = []
def kernel(x, bias, times):
    frame = sys._getframe(1)
    while frame is not None and "cotangents" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None:
        ready.append(gradients(x, bias, times, *frame.f_locals["cotangents"]))
    return forward(x, bias, times)
def backward(*given):
    return ready.pop() if ready else gradients(*given)
"""


@pytest.mark.parametrize("attack", [PUT_OFF, AHEAD], ids=["outputs put off", "gradients ahead"])
async def test_outputs_come_before_cotangents(judge: Judge, attack: str) -> None:
    passes = BY_HAND.replace("def kernel", "def forward").replace("def backward", "def gradients")

    report = await judge(GELU, passes + attack)

    # Which of the calls have their cotangents changed is drawn: the first of the two on the same inputs, or the second.
    assert report.verdict in (Verdict.wrong_numbers, Verdict.not_deterministic), report.evidence


async def test_both_passes_are_timed_against_both(device: Device, tmp_path: Path) -> None:
    problem = _problem(tmp_path, GELU)
    facts = await device.validate_problem(problem)
    report, _ = await device.compile(BY_HAND, "cpp")

    profiled = await device.profile(problem, facts, BY_HAND, report)

    assert profiled.verdict is Verdict.correct, profiled.evidence
    assert profiled.timing is not None and set(profiled.timing.median_ms) == {"eager", "candidate"}
    assert facts.signature == ("x", "bias", "times", "cotangents")
    assert len(facts.shapes[0].outputs) == 3
    assert facts.graph is not None and facts.backward_graph is not None and facts.capture_error == ""


async def test_what_is_no_flag_is_refused(device: Device, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="`backward` is a function"):
        await device.validate_problem(_problem(tmp_path, GELU.replace("backward = True", "def backward(): pass")))


BESIDE_CORNERS = """
import torch
backward = True
shapes = {"main": dict(rows=64, cols=48)}
def inputs(generator, rows, cols):
    x = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    w = torch.randn(cols, 32, generator=generator, dtype=torch.float64)
    first, second = w[:, 0], w[:, 1]
    x[:8] -= torch.outer(x[:8] @ first / (first @ first), first)
    between = first - second
    x[8:16] -= torch.outer(x[8:16] @ between / (between @ between), between)
    return [x.float(), w.float()]
def reference(x, w): return CORNER
"""
REVERSED = """
import torch
def kernel(x, w): return CORNER
"""


@pytest.mark.parametrize(
    "corner",
    [
        "torch.relu(x @ w)",
        "(x @ w).abs()",
        "torch.nn.functional.max_pool1d((x @ w)[:, None], 2)",
        "torch.maximum(*(x @ w).chunk(2, -1)) + torch.nn.functional.selu(x @ w)[:, :16]",
    ],
)
async def test_slopes_beside_a_corner_convict_nobody(judge: Judge, corner: str) -> None:
    candidate = REVERSED.replace("CORNER", corner.replace("x @ w", "x.flip(-1) @ w.flip(0)"))
    report = await judge(BESIDE_CORNERS.replace("CORNER", corner), candidate)
    assert report.verdict is Verdict.correct, report.evidence
    half = candidate.replace("x.flip", "torch.cat([x[:20], x[20:40].detach(), x[40:]]).flip")
    assert (await judge(BESIDE_CORNERS.replace("CORNER", corner), half)).verdict is Verdict.wrong_numbers


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
async def test_outputs_of_every_floating_type_have_cotangents(dtype: str) -> None:
    output = torch.ones(2, 3).to(getattr(torch, dtype))
    outputs = (output, torch.ones(2, dtype=torch.int64), None)
    timed = SimpleNamespace(device="cpu", _model=lambda: outputs)
    for drawn in (cotangents(outputs, seed=3), _Problem._cotangents(cast(_Problem, timed), [], seed=3)):
        (cotangent,) = drawn
        assert cotangent.dtype is output.dtype and cotangent.shape == output.shape
        assert cotangent.float().abs().sum() > 0
