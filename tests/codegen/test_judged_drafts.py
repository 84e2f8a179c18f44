"""Drafts for references that are hard to capture, by the judge: right at every named shape and at those it makes up."""

from collections.abc import AsyncIterator
from pathlib import Path

import model_outputs
import pytest
import pytest_asyncio
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Config, Pool, Verdict

POOL = Pool(
    name="cpu", platform="cpu", languages=("cpp",), threads=2, candidate_seconds=60.0, candidate_memory_bytes=4 << 30
)
PROBLEMS = {
    "circular": """
shapes = {"main": dict(rows=6, high=20, wide=24), "ragged": dict(rows=3, high=7, wide=5)}

def inputs(generator, rows, high, wide):
    return [torch.randn(rows, 2, high, wide, generator=generator)]

def reference(x):
    return F.gelu(F.pad(x, (2, 1, 0, 3), mode="circular"))
""",
    "resampled": """
shapes = {"main": dict(rows=6, high=20, wide=24), "ragged": dict(rows=3, high=7, wide=5)}

def inputs(generator, rows, high, wide):
    return [torch.randn(rows, 2, high, wide, generator=generator)]

def reference(x):
    return F.silu(F.interpolate(x, scale_factor=1.5, mode="bilinear"))
""",
    "attention": """
shapes = {"main": dict(length=48, size=32), "ragged": dict(length=37, size=40)}

def inputs(generator, length, size):
    return [torch.randn(2, length, size, generator=generator) for _ in range(3)]

def reference(q, k, v):
    return torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), -1) @ v
""",
    # Two thousand numbers that nearly cancel, one after the other.
    "moving average": """
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.steps.add_(1)
        return torch.tanh(x - self.mean)

def get_inputs(): return [torch.randn(2048, 64)]
def get_init_inputs(): return [64]
""",
    "an attribute": """
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.cell = torch.nn.Linear(2 * size, size)
        self.hidden = torch.randn(16, size)

    def forward(self, x):
        self.hidden = torch.tanh(self.cell(torch.cat((x, self.hidden), 1)))
        return F.gelu(self.hidden) + x

def get_inputs(): return [torch.randn(16, 48)]
def get_init_inputs(): return [48]
""",
    "messages": """
shapes = {"main": dict(rows=60, edges=900, size=24), "ragged": dict(rows=7, edges=33, size=5)}

def inputs(generator, rows, edges, size):
    return [
        torch.randn(rows, size, generator=generator),
        torch.randint(rows, (2, edges), generator=generator),
        torch.rand(edges, generator=generator),
    ]

def reference(x, edges, weight):
    messages = torch.relu(x[edges[0]]) * weight[:, None]
    return torch.zeros_like(x).index_add_(0, edges[1], messages) + x
""",
    "gated scan": """
shapes = {"main": dict(rows=6, size=40), "ragged": dict(rows=3, size=7)}

def inputs(generator, rows, size):
    return [torch.randn(rows, 20, size, generator=generator) for _ in range(2)]

def reference(x, gate):
    h, steps = torch.zeros_like(x[:, 0]), []
    for t in range(20):
        a = torch.sigmoid(gate[:, t])
        h = a * h + (1 - a) * x[:, t]
        steps.append(h)
    return torch.stack(steps, 1), h
""",
    "model output": Path(model_outputs.__file__).read_text()
    + """
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first, self.second = torch.nn.Linear(size, size), torch.nn.LayerNorm(size)

    def forward(self, x):
        inner = F.gelu(self.first(x))
        last = self.second(inner + x)
        return Output(last_hidden_state=last, hidden_states=(inner, last))

def get_inputs(): return [torch.randn(64, 48)]
def get_init_inputs(): return [48]
""",
}
CONFIGS: tuple[Config, ...] = ({}, {"fusion": "split"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Device]:
    home = tmp_path_factory.mktemp("home")
    async with Device(POOL, HARDWARE, home, baselines=("eager",), secret="tests") as device:
        yield device


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", PROBLEMS)
async def test_drafts_are_right(name: str, device: Device, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(f"import math\n\nimport torch\nimport torch.nn.functional as F\n{PROBLEMS[name]}")
    problem = load_problem(path)
    facts = await device.validate_problem(problem)
    graph = facts.graph
    assert graph is not None
    # That there are as many steps as are taken is no branch.
    assert not [condition for condition in graph.decided if ".shape[1] > " not in condition]

    for config in CONFIGS:
        source = CODEGEN_BACKENDS["cpp"].source(facts, graph, config, HARDWARE)
        compiled, _ = await device.compile(source, "cpp")
        report = await device.verify(problem, source, compiled)
        assert report.verdict is Verdict.correct, report
