"""Work done in a lower precision than asked has a verdict of its own; other faults do not get it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

PRODUCT = """
import torch
shapes = {"main": dict(n=96), "ragged": dict(n=33)}
def inputs(generator, n): return [torch.randn(n, n, generator=generator), torch.randn(n, n, generator=generator)]
def reference(a, b): return torch.relu(a @ b)
"""
HALF = """
import torch
shapes = {"main": dict(n=500), "ragged": dict(n=33)}
def inputs(generator, n): return [torch.randn(16, n, generator=generator).half()]
def reference(x): return torch.softmax(x.float(), -1).half()
"""
TF32 = "def cut(x): return torch.bitwise_and(x.view(torch.int32) + 0x1000, ~0x1FFF).view(torch.float32)\n"

LOWER = {
    "inputs in half": (PRODUCT, "def kernel(a, b): return torch.relu(a.half().float() @ b.half().float())", "float16"),
    "inputs in tf32": (PRODUCT, TF32 + "def kernel(a, b): return torch.relu(cut(a) @ cut(b))", "tf32"),
    "inputs in bfloat16": (
        PRODUCT,
        "def kernel(a, b): return torch.relu(a.bfloat16().float() @ b.bfloat16().float())",
        "bfloat16",
    ),
    "all in bfloat16": (
        PRODUCT,
        "def kernel(a, b): return torch.relu(a.bfloat16() @ b.bfloat16()).float()",
        "bfloat16",
    ),
    "the answer in half": (PRODUCT, "def kernel(a, b): return torch.relu(a @ b).half().float()", "float16"),
    "a half problem in eight bits": (
        HALF,
        "def kernel(x): return torch.softmax(x.to(torch.float8_e4m3fn).float(), -1).half()",
        "float8_e4m3fn",
    ),
}

Judge = Callable[[str, str], Awaitable[VerifyReport]]


@pytest.fixture
def judge(device: Device, tmp_path: Path) -> Judge:
    async def judge(problem: str, candidate: str) -> VerifyReport:
        path = tmp_path / "mine.py"
        path.write_text(problem)
        source = f"import torch\n{candidate}\n"
        report, _ = await device.compile(source, "cpp")
        return await device.verify(load_problem(path), source, report)

    return judge


@pytest.mark.parametrize("name", LOWER)
async def test_the_precision_is_named(judge: Judge, name: str) -> None:
    problem, candidate, precision = LOWER[name]

    report = await judge(problem, candidate)

    assert report.verdict is Verdict.lower_precision, report.evidence
    assert report.evidence is not None and precision in report.evidence.message
    assert report.evidence.element and report.evidence.expected != report.evidence.got


WRONG = {
    "another formula": "def kernel(a, b): return torch.nn.functional.silu(a @ b)",
    "a factor": "def kernel(a, b): return 1.003 * torch.relu(a @ b)",
    "one element": "def kernel(a, b):\n    out = torch.relu(a @ b)\n    out[3, 4] += 0.05\n    return out",
    "a term too few": "def kernel(a, b): return torch.relu(a[:, 1:] @ b[1:])",
    "noise": "def kernel(a, b): return torch.relu(a @ b) * (1 + 1e-3 * torch.sin(1e4 * a.sum(-1, keepdim=True)))",
}


@pytest.mark.parametrize("name", WRONG)
async def test_other_faults_are_wrong_numbers(judge: Judge, name: str) -> None:
    report = await judge(PRODUCT, WRONG[name])

    assert report.verdict is Verdict.wrong_numbers, report.evidence
