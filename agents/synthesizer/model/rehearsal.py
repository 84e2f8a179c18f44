"""A conversation with a server of our own on loopback, in a thread, before the first one with a model.

The vendors' libraries import modules and build the schemas of their types with their first request and its answer:
up to a tenth of a second, which every agent on the event loop would wait for.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import ToolSchema

from .client import ModelClient
from .faults import ModelFault
from .settings import Settings, VendorFacts
from .wire import Wire

_TOOL = ToolSchema(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
_FAILED = (
    "HTTP/1.1 500 -\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n"
    '{"type": "error", "error": {"type": "api_error", "message": "m"}}'
)


async def rehearse(
    vendor: VendorFacts, answer: str, open_sdk: Callable[[Settings], Any], open_wire: Callable[..., Wire]
) -> None:
    """Ask, ask again with the result of the tool that ``answer`` calls, and get an error. No key is sent.

    Args:
        vendor: Whose library it is.
        answer: The stream of a whole answer in the vendor's format.
        open_sdk: Opens the library's client.
        open_wire: Opens a conversation, given the client, a model's name and the settings.

    Raises:
        OSError: nothing can listen on loopback.
        ModelFault: the library cannot reach it, or does not take ``answer``.
    """
    streamed = f"HTTP/1.1 200 -\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{answer}"
    replies = iter((streamed, streamed, _FAILED))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(request.partition(b"content-length:")[2].split(b"\r\n")[0]))
        writer.write(next(replies).encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = Settings(vendor=vendor, key="", url=f"http://127.0.0.1:{port}", attempts=1, timeout_s=10.0)
        sdk = open_sdk(settings)
        try:
            await _converse(ModelClient(open_wire(sdk, "model", settings), "model", settings, lambda call: None))
        finally:
            await sdk.close()


async def _converse(client: ModelClient) -> None:
    messages: list[LLMMessage] = [SystemMessage(content="s"), UserMessage(content=["a", "b"], source="user")]
    called = (await client.create(messages, tools=[_TOOL])).content
    assert not isinstance(called, str)
    results = [FunctionExecutionResult(content="seen", name=c.name, call_id=c.id, is_error=False) for c in called]
    messages += [AssistantMessage(content=called, source="model"), FunctionExecutionResultMessage(content=results)]
    await client.create(messages, tools=[_TOOL])
    with contextlib.suppress(ModelFault):
        await client.create(messages)
