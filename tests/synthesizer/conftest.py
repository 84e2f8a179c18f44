"""Backends of every vendor against a server on loopback, and requests to ask them with."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from model_server import ModelServer, model_server

from kernelswarm.agents.synthesizer.anthropic import AnthropicBackend
from kernelswarm.agents.synthesizer.backend import Answer, Request
from kernelswarm.agents.synthesizer.model.backend import ModelBackend
from kernelswarm.agents.synthesizer.model.settings import Settings
from kernelswarm.agents.synthesizer.openai import OpenAIBackend
from kernelswarm.schemas import (
    HardwareFacts,
    InputFact,
    Intent,
    MemoryOperator,
    NodePlanned,
    Pool,
    Problem,
    ProblemFacts,
    ProblemFormat,
    RoleModel,
    ShapeFacts,
    Work,
    sha256,
)
from kernelswarm.sessions.replay_authors import replay_conversation

KEY = "sk-test-0123456789-secret"

SOURCE = '''import ctypes
import torch

CPP_SOURCE = r"""
extern "C" void scale(const float* x, float* out, long n) {
  for (long i = 0; i < n; i++) out[i] = 2.0f * x[i];
}
"""
CPP_FLAGS = []

_lib = _load()
_lib.scale.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
_lib.scale.restype = None

def kernel(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    _lib.scale(x.data_ptr(), out.data_ptr(), x.numel())
    return out
'''
GOOD = f"One pass, no temporaries.\n\n```python\n{SOURCE}```\n"


VENDORS = {"anthropic": AnthropicBackend, "openai": OpenAIBackend}


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for vendor in ("ANTHROPIC", "OPENAI"):
        for name in ("API_KEY", "BASE_URL", "AUTH_TOKEN", "CUSTOM_HEADERS"):
            monkeypatch.delenv(f"{vendor}_{name}", raising=False)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as scripted:
        yield scripted


@pytest.fixture(params=sorted(VENDORS))
def vendor(request: pytest.FixtureRequest) -> str:
    """Every test that asks for it runs with each vendor."""
    return str(request.param)


@dataclass
class Asked:
    """A backend that does not really wait, and the pauses it wanted."""

    backend: ModelBackend
    pauses: list[float]


@pytest.fixture
async def ask(server: ModelServer, vendor: str) -> AsyncIterator[Callable[..., Asked]]:
    backends: list[ModelBackend] = []

    def make(**settings: Any) -> Asked:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        kind = VENDORS[vendor]
        chosen = Settings(**{"vendor": kind.vendor, "key": KEY, "url": server.url, **settings})
        backends.append(kind(chosen, sleep=sleep))
        return Asked(backends[-1], pauses)

    yield make
    for backend in backends:
        await backend.close()


def request(**changes: Any) -> Request:
    """A draft for a problem that doubles its input."""
    source = "def reference(x):\n    return x * 2\n"
    tensor = InputFact(name="x", kind="tensor", shape=(2048, 4096), dtype="float32")
    fields: dict[str, Any] = {
        "problem": Problem(name="double", format=ProblemFormat.function, source=source, sha256=sha256(source)),
        "facts": ProblemFacts(
            signature=("x",),
            shapes=(ShapeFacts(name="main", inputs=(tensor,), outputs=(tensor,)),),
            graph=None,
            work=Work(read_bytes=1 << 25, write_bytes=1 << 25, flops=1 << 23),
            dtype="float32",
            float64_oracle=True,
            operators=("aten.mul.Tensor",),
        ),
        "pool": Pool(name="cpu", platform="cpu", languages=("cpp",)),
        "hardware": HardwareFacts(
            device="A processor",
            cores=2,
            isa=("avx2", "fma"),
            vector_bytes=32,
            l2_bytes=1 << 20,
            l3_bytes=1 << 25,
            memory_bytes=1 << 33,
            copy_gbps=20.0,
            peak_gflops=100.0,
            huge_pages="madvise",
        ),
        "plan": NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate),
        "node": "n1",
        "language": "cpp",
        "model": "claude-test",
    }
    return Request(**{**fields, **changes})


async def replays(answer: Answer, of: Request, roles: Sequence[RoleModel] = ()) -> None:
    """The conversation behind ``answer`` follows again from what it recorded, to the byte."""
    events = [*answer.records, *filter(None, (answer.candidate, answer.failed))]
    replayed = await replay_conversation(of, roles, [(str(place), event) for place, event in enumerate(events)])
    made = answer.candidate is not None
    assert (replayed.prompts, replayed.prompts_changed) == (len(answer.calls), ())
    assert (replayed.candidates, replayed.candidates_changed) == (made, ())


@pytest.fixture
def make_request() -> Callable[..., Request]:
    return request


@pytest.fixture
def replayed() -> Callable[..., Awaitable[None]]:
    """Have a conversation again, out of its records."""
    return replays


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def key() -> str:
    return KEY
