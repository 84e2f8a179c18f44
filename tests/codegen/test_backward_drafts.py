"""Drafts for problems that ask for the backward pass, by the judge: outputs and gradients, at every named shape."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Pool, Verdict

POOL = Pool(
    name="cpu", platform="cpu", languages=("cpp",), threads=2, candidate_seconds=60.0, candidate_memory_bytes=4 << 30
)
HEAD = """
import torch
import torch.nn.functional as F

backward = True
shapes = {"main": dict(rows=48, cols=200), "ragged": dict(rows=7, cols=33)}


def draw(generator, *shape):
    return torch.randn(*shape, generator=generator)
"""
PROBLEMS = {
    "softmax": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols)]

def reference(x):
    return torch.softmax(x, -1)
""",
    "layer_norm_with_residual": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), draw(generator, rows, cols), draw(generator, cols), draw(generator, cols)]

def reference(x, residual, weight, bias):
    h = x + residual
    return F.layer_norm(h, (h.shape[-1],), weight, bias), h
""",
    "rms_norm": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), draw(generator, cols)]

def reference(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)
""",
    "gelu_bias": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), draw(generator, cols)]

def reference(x, bias):
    return F.gelu(x + bias)
""",
    "swiglu": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), draw(generator, rows, cols)]

def reference(gate, x):
    return F.silu(gate) * x
""",
    "cross_entropy": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), torch.randint(cols, (rows,), generator=generator)]

def reference(logits, target):
    return F.cross_entropy(logits, target)
""",
    "mlp": """
def inputs(generator, rows, cols):
    return [draw(generator, rows, cols), draw(generator, cols, 64), draw(generator, 64), draw(generator, 64, cols)]

def reference(x, first, bias, second):
    return F.gelu(x @ first + bias) @ second
""",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Device]:
    home = tmp_path_factory.mktemp("home")
    async with Device(POOL, HARDWARE, home, baselines=("eager",), secret="tests") as device:
        yield device


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", PROBLEMS)
async def test_drafts_are_right(name: str, device: Device, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(HEAD + PROBLEMS[name])
    problem = load_problem(path)
    facts = await device.validate_problem(problem)
    assert facts.capture_error == ""
    assert facts.graph is not None
    assert facts.backward_graph is not None

    source = CODEGEN_BACKENDS["cpp"].source(facts, facts.graph, {}, HARDWARE)
    assert "_backward_kernel0(" in source.partition("\ndef backward(")[2]
    compiled, _ = await device.compile(source, "cpp")
    report = await device.verify(problem, source, compiled)
    assert report.verdict is Verdict.correct, report
