"""A server on loopback that speaks the Messages format from a script, and requests to ask it with."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kernelswarm.agents.synthesizer.anthropic import AnthropicBackend
from kernelswarm.agents.synthesizer.anthropic.settings import Settings
from kernelswarm.agents.synthesizer.backend import Request
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
    ShapeFacts,
    Work,
    sha256,
)

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


@dataclass
class Reply:
    """What the server says to one request."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    hang: bool = False
    drop: bool = False


def message(text: str | list[dict[str, Any]], *, stop_reason: str = "end_turn", **usage: int) -> Reply:
    """A 200 with a message."""
    blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
    body = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": blocks,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7, **usage},
    }
    return Reply(body=json.dumps(body).encode())


def error(status: int, kind: str, text: str, **headers: str) -> Reply:
    """An error as the API words it."""
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


@dataclass
class MessagesServer:
    """Answers in the order of its script and remembers what it was asked."""

    url: str = ""
    script: list[Reply] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = dict(line.split(": ", 1) for line in lines[1:-2])
        head = {name.lower(): value for name, value in head.items()}
        self.bodies.append(await reader.readexactly(int(head["content-length"])))
        self.heads.append({":line": lines[0], **head})
        self.requested.set()
        reply = self.script.pop(0) if self.script else error(500, "api_error", "the script is over")
        if reply.hang:
            await reader.read()
            self.left.set()
        elif not reply.drop:
            self._answer(writer, reply)
        writer.close()

    def _answer(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        named = {**reply.headers, "content-length": str(len(reply.body)), "connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"HTTP/1.1 {reply.status} -\r\n{head}\r\n".encode() + reply.body)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("API_KEY", "BASE_URL", "AUTH_TOKEN", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)


@pytest.fixture
async def server() -> AsyncIterator[MessagesServer]:
    scripted = MessagesServer()
    listening = await asyncio.start_server(scripted.handle, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield scripted


@dataclass
class Asked:
    """A backend that does not really wait, and the pauses it wanted."""

    backend: AnthropicBackend
    pauses: list[float]


@pytest.fixture
async def ask(server: MessagesServer) -> AsyncIterator[Callable[..., Asked]]:
    backends: list[AnthropicBackend] = []

    def make(**settings: Any) -> Asked:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        chosen = Settings(**{"key": KEY, "url": server.url, **settings})
        backends.append(AnthropicBackend(chosen, sleep=sleep))
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


@pytest.fixture
def make_request() -> Callable[..., Request]:
    return request


@pytest.fixture
def say() -> Callable[..., Reply]:
    return message


@pytest.fixture
def fail() -> Callable[..., Reply]:
    return error


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def key() -> str:
    return KEY
