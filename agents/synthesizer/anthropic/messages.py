"""Between AutoGen's messages and the Messages format of the Anthropic API."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
from anthropic import AsyncAnthropic
from anthropic.types import Message
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, SystemMessage, UserMessage
from autogen_core.tools import ToolSchema
from msgspec.structs import replace

from ..model.client import canonical
from ..model.faults import BrokenStream, Fault, MalformedAnswer, classify
from ..model.reply import Reply, ToolRequest, Usage, stop_of
from ..model.settings import Settings
from ..model.tokens import estimated_tokens

_CACHED = {"type": "ephemeral"}

Turn = dict[str, Any]


class MessagesWire:
    """One conversation over the Messages API."""

    def __init__(self, sdk: AsyncAnthropic, model: str, settings: Settings) -> None:
        self._sdk, self._model, self._settings = sdk, model, settings
        self._answers: dict[tuple[str, ...], list[Turn]] = {}
        """The blocks of its own answers by tool calls: what it thought must come back with the tools' results."""
        self._streamed = _Streamed({})

    def body(
        self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema], schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What stays the same over a session (tools, system prompt, the first block) is marked for caching.

        The last block is marked as well once tools are used: the next request of the conversation begins with it.
        """
        system = [{"type": "text", "text": m.content, "cache_control": _CACHED} for m in messages if _is_system(m)]
        turns = [turn for m in messages if not _is_system(m) and (turn := self._turn(m)) is not None]
        if turns and len(turns[0]["content"]) > 1:
            turns[0]["content"][0]["cache_control"] = _CACHED
        if tools and turns:
            turns[-1]["content"][-1] = {**turns[-1]["content"][-1], "cache_control": _CACHED}
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._settings.max_tokens,
            "system": system,
            "messages": turns,
        }
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        temperature = self._settings.temperature
        return body if temperature is None else {**body, "temperature": temperature}

    async def send(self, body: dict[str, Any]) -> Reply:
        """One try, streamed.

        Raises:
            BrokenStream: the answer ended before it was complete.
            MalformedAnswer: it is none.
            anthropic.APIError: whatever the SDK says.
        """
        streamed = self._streamed = _Streamed(body)
        # The SDK has no parameter for a temperature any more; servers that take one read it from the body.
        extra = {name: body[name] for name in ("temperature",) if name in body}
        offered = {name: body[name] for name in ("tools", "output_config") if name in body}
        async with self._sdk.messages.stream(
            model=body["model"],
            max_tokens=body["max_tokens"],
            system=body["system"],
            messages=body["messages"],
            extra_body=extra or None,
            **offered,
        ) as stream:
            ended = started = False
            try:
                async for event in stream:
                    streamed.add(event)
                    started = started or event.type == "message_start"
                    ended = ended or event.type == "message_stop"
                    await asyncio.sleep(0)  # A long answer may be here at once: other agents have their turn.
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                # The SDK builds objects from whatever JSON came, and trips over what is missing in them.
                raise MalformedAnswer(f"{type(error).__name__}: {error}") from error
            if not started:
                raise MalformedAnswer("no message began")
            if not ended:
                raise BrokenStream("no end of the message")
            message = checked(await stream.get_final_message())
        return _reply(message)

    def streamed(self) -> Usage | None:
        """The request as the server counted it at the beginning, and what came of the answer."""
        return self._streamed.usage()

    def keep(self, reply: Reply) -> None:
        """What a model thought must come back with the results of its tools."""
        if reply.tools:
            blocks = json.loads(reply.blocks) if reply.blocks else _plain_blocks(reply)
            self._answers[tuple(call.id for call in reply.tools)] = blocks

    def fault(self, error: Exception) -> Fault | None:
        """The fault behind an exception of :meth:`send`."""
        return classify(error, anthropic, self._model, self._settings)

    def _turn(self, message: LLMMessage) -> Turn | None:
        if isinstance(message, UserMessage):
            texts = [message.content] if isinstance(message.content, str) else [str(part) for part in message.content]
            return {"role": "user", "content": [{"type": "text", "text": text} for text in texts if text]}
        if isinstance(message, FunctionExecutionResultMessage):
            return {"role": "user", "content": [_result(result) for result in message.content]}
        assert isinstance(message, AssistantMessage)
        if isinstance(message.content, str):
            # The API refuses an empty block, and an empty answer is what a second try follows.
            text = message.content.rstrip()
            return {"role": "assistant", "content": [{"type": "text", "text": text}]} if text else None
        blocks = self._answers[tuple(call.id for call in message.content)]
        return {"role": "assistant", "content": list(blocks)}


@dataclass
class _Streamed:
    """What of an answer to ``body`` has come."""

    body: dict[str, Any]
    begun: Any = None
    """The message's beginning, with what the server counted by then."""
    text: str = ""

    def add(self, event: Any) -> None:
        if event.type == "message_start":
            self.begun = event.message
        elif event.type == "content_block_delta":
            pieces = (getattr(event.delta, name, None) for name in ("text", "partial_json", "thinking"))
            self.text += "".join(piece for piece in pieces if isinstance(piece, str))

    def usage(self) -> Usage | None:
        if self.begun is None:
            return None
        usage = getattr(self.begun, "usage", None)
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        counts = [getattr(usage, name, None) or 0 for name in names]
        if not any(isinstance(count, int) and count > 0 for count in counts):
            counts = [estimated_tokens(canonical(self.body)), 0, 0]
        prompt, read, write = (count if isinstance(count, int) else 0 for count in counts)
        return Usage(
            input_tokens=prompt,
            output_tokens=estimated_tokens(self.text),
            cache_read_tokens=read,
            cache_write_tokens=write,
            is_estimated=True,
        )


def checked(message: object) -> Message:
    """The SDK builds a Message from whatever JSON came: hold its parts against what is used here.

    Raises:
        MalformedAnswer: it is not a message.
    """
    if not isinstance(message, Message):
        raise MalformedAnswer(f"{type(message).__name__} instead of a message")
    usage = getattr(message, "usage", None)
    numbers = [getattr(usage, name, None) for name in ("input_tokens", "output_tokens")]
    blocks = getattr(message, "content", None)
    if not isinstance(blocks, list) or not all(hasattr(block, "type") for block in blocks):
        raise MalformedAnswer("no list of content blocks")
    if not all(isinstance(number, int) for number in numbers):
        raise MalformedAnswer("no token usage")
    if not all(isinstance(getattr(block, "text", None), str) for block in blocks if block.type == "text"):
        raise MalformedAnswer("a text block without text")
    return message


def _reply(message: Message) -> Reply:
    usage = message.usage
    calls = [block for block in message.content if block.type == "tool_use"]
    reply = Reply(
        text="".join(block.text for block in message.content if block.type == "text"),
        tools=tuple(
            ToolRequest(id=str(call.id), name=str(call.name), arguments=json.dumps(call.input, ensure_ascii=False))
            for call in calls
        ),
        stop=stop_of(message.stop_reason or "", wants_tools=bool(calls)),
        stop_reason=message.stop_reason or "",
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_input_tokens or 0,
            cache_write_tokens=usage.cache_creation_input_tokens or 0,
        ),
    )
    blocks = [_block(block) for block in message.content]
    is_plain = not calls or blocks == _plain_blocks(reply)
    return reply if is_plain else replace(reply, blocks=json.dumps(blocks, ensure_ascii=False))


def _plain_blocks(reply: Reply) -> list[Turn]:
    """An answer without thoughts."""
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in reply.tools
    ]
    return [*text, *calls]


def _block(block: Any) -> Turn:
    """A block of an answer as the API takes it back."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "tool_use":
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    sent: Turn = block.model_dump(mode="json", exclude_none=True)
    return sent


def _tool(tool: ToolSchema) -> dict[str, Any]:
    empty = {"type": "object", "properties": {}}
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "input_schema": tool.get("parameters", empty),
    }


def _result(result: Any) -> Turn:
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": result.content}
    return {**block, "is_error": True} if result.is_error else block


def _is_system(message: LLMMessage) -> bool:
    return isinstance(message, SystemMessage)
