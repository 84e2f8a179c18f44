"""A server on loopback that speaks the formats of Anthropic and OpenAI, streamed, from a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass
class Said:
    """An answer, whoever is asked."""

    text: str = ""
    tools: tuple[tuple[str, Any], ...] = ()
    """Names of tools with their arguments: a value for JSON, or the JSON itself as text."""
    stop: str = ""
    """``length`` or ``refusal``; else as it follows."""
    usage: dict[str, int] | None = field(default_factory=lambda: {"input": 11, "output": 7})
    """Tokens: ``input``, ``output``, ``read``, ``write``; None: the server does not say."""
    blocks: tuple[dict[str, Any], ...] = ()
    """Anthropic's blocks in place of the text."""
    cut: bool = False
    """Whether the connection breaks in the middle."""
    endless: bool = False
    """Whether it goes on with comments after the middle, and never ends."""
    error: str = ""
    """An error of this type in the middle of the stream."""


@dataclass
class Failed:
    """An error, a body of any kind, or none."""

    status: int = 200
    kind: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    media_type: str = JSON
    hang: bool = False
    drop: bool = False


Reply = Said | Failed


@dataclass
class ModelServer:
    """Answers in the order of its script and remembers what it was asked."""

    url: str = ""
    script: list[Reply] = field(default_factory=list)
    answer: Callable[[dict[str, Any]], Reply] | None = None
    """What is said once the script is over; None: an error."""
    bodies: list[bytes] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    answering: set[asyncio.Task[None]] = field(default_factory=set)
    """One for each connection that is open."""

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.answering.add(task)
        try:
            await self.handle(reader, writer)
        finally:
            writer.close()
            self.answering.discard(task)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:-2])}
        body = await reader.readexactly(int(head.get("content-length", 0)))
        self.bodies.append(body)
        self.heads.append({":line": lines[0], **head})
        self.requested.set()
        reply = self._next(body)
        if isinstance(reply, Failed) and reply.hang:
            await reader.read()
            self.left.set()
        elif isinstance(reply, Said):
            await self._stream(writer, reply, turn_of(body), is_messages="/messages" in lines[0])
        elif not reply.drop:
            self._fail(writer, reply)

    def _next(self, body: bytes) -> Reply:
        if self.script:
            return self.script.pop(0)
        if self.answer is not None:
            return self.answer(json.loads(body))
        return Failed(500, "api_error", "the script is over")

    async def _stream(self, writer: asyncio.StreamWriter, said: Said, turn: int, *, is_messages: bool) -> None:
        events = list((messages_stream if is_messages else completions_stream)(said, turn))
        writer.write(f"HTTP/1.1 200 -\r\ncontent-type: {EVENTS}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for event in events[: len(events) // 2] if said.cut or said.endless else events:
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        while said.endless and not writer.is_closing():
            writer.write(b"8\r\n: ping\n\n\r\n")
            await asyncio.sleep(0.01)
        if said.endless:
            self.left.set()
        elif not said.cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _fail(self, writer: asyncio.StreamWriter, failed: Failed) -> None:
        body = failed.body
        if body is None:
            body = json.dumps({"type": "error", "error": {"type": failed.kind, "message": failed.message}}).encode()
        named = {"content-type": failed.media_type, **failed.headers}
        named = {**named, "content-length": str(len(body)), "connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"HTTP/1.1 {failed.status} -\r\n{head}\r\n".encode() + body)


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """A server without a script, until the block ends."""
    scripted = ModelServer()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield scripted
        answering = list(scripted.answering)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        await asyncio.sleep(0)  # what is closed ends its connection in the loop's next round


def turn_of(body: bytes) -> int:
    """How many answers a conversation has had: ids of tool calls differ within it, and are the same in the next."""
    return sum(message["role"] == "assistant" for message in json.loads(body)["messages"])


def messages_stream(said: Said, turn: int = 0) -> Iterator[bytes]:
    """The events of the Messages format."""
    usage = said.usage or {}
    counted = {
        "input_tokens": usage.get("input", 0),
        "output_tokens": 1,
        "cache_read_input_tokens": usage.get("read", 0),
        "cache_creation_input_tokens": usage.get("write", 0),
    }
    shell = {"id": "msg_01", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": counted}
    yield _named("message_start", message={**shell, "stop_reason": None, "stop_sequence": None})
    for index, block in enumerate(said.blocks or _blocks(said, turn)):
        yield from _block_events(index, block)
    if said.error:
        yield _named("error", error={"type": said.error, "message": "in the middle"})
        return
    reason = {"length": "max_tokens", "refusal": "refusal"}.get(said.stop, "tool_use" if said.tools else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield _named("message_delta", delta=delta, usage={"output_tokens": usage.get("output", 0)})
    yield _named("message_stop")


def _blocks(said: Said, turn: int) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": said.text}] if said.text else []
    tools = [
        {"type": "tool_use", "id": f"toolu_{turn}_{index}", "name": name, "input": arguments}
        for index, (name, arguments) in enumerate(said.tools)
    ]
    return [*text, *tools]


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "tool_use": {"input": {}}, "thinking": {"thinking": "", "signature": ""}}[kind]
    yield _named("content_block_start", index=index, content_block={**block, **empty})
    if kind == "text":
        half = len(block["text"]) // 2
        for part in filter(None, (block["text"][:half], block["text"][half:])):
            yield _named("content_block_delta", index=index, delta={"type": "text_delta", "text": part})
    elif kind == "tool_use":
        text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        for part in filter(None, (text[:5], text[5:])):
            yield _named("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part})
    else:
        delta = {"type": "thinking_delta", "thinking": block["thinking"]}
        yield _named("content_block_delta", index=index, delta=delta)
        delta = {"type": "signature_delta", "signature": block["signature"]}
        yield _named("content_block_delta", index=index, delta=delta)
    yield _named("content_block_stop", index=index)


def completions_stream(said: Said, turn: int = 0) -> Iterator[bytes]:
    """The chunks of the Chat Completions format."""
    half = len(said.text) // 2
    yield _chunk({"role": "assistant", "content": ""})
    if said.stop == "refusal":
        yield _chunk({"refusal": said.text})
    else:
        for part in filter(None, (said.text[:half], said.text[half:])):
            yield _chunk({"content": part})
    for index, (name, arguments) in enumerate(said.tools):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"index": index, "id": f"call_{turn}_{index}", "type": "function"}
        yield _chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": text[:5]}}]})
        yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": text[5:]}}]})
    if said.error:
        yield f"data: {json.dumps({'error': {'type': said.error, 'message': 'in the middle'}})}\n\n".encode()
        return
    yield _chunk({}, finish={"length": "length"}.get(said.stop, "tool_calls" if said.tools else "stop"))
    if said.usage is not None:
        read, write = said.usage.get("read", 0), said.usage.get("write", 0)
        usage = {
            "prompt_tokens": said.usage["input"] + read + write,
            "completion_tokens": said.usage["output"],
            "total_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        }
        yield f"data: {json.dumps({**_SHELL, 'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


_SHELL = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({**_SHELL, 'choices': [choice]})}\n\n".encode()


def _named(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()
