"""Between AutoGen's messages and the Chat Completions format of OpenAI, as other servers speak it too."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, SystemMessage, UserMessage
from autogen_core.tools import ToolSchema
from openai import AsyncOpenAI

from ..model.client import canonical
from ..model.faults import BrokenStream, Fault, MalformedAnswer, classify
from ..model.reply import Reply, ToolRequest, Usage, stop_of
from ..model.settings import Settings
from ..model.tokens import estimated_tokens

Turn = dict[str, Any]

_LONG = ("messages", "tools")
"""What goes into a request past the SDK, which compares every part of it with the types that it may have: 11 ms for 56
messages on a quiet core, 83 ms of a busy one, in which nobody else has the event loop."""


class CompletionsWire:
    """One conversation over the Chat Completions API."""

    def __init__(self, sdk: AsyncOpenAI, model: str, settings: Settings) -> None:
        self._sdk, self._model, self._settings = sdk, model, settings
        self._answer, self._asked = _Answer(), dict[str, Any]()

    def body(
        self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema], schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Servers cache what requests begin with: tools, system prompt and session come first by themselves."""
        settings = self._settings
        # Servers of others know the older name; OpenAI's reasoning models refuse it.
        limit = "max_completion_tokens" if settings.url == settings.vendor.url else "max_tokens"
        body: dict[str, Any] = {
            "model": self._model,
            limit: settings.max_tokens,
            "messages": [turn for message in messages for turn in _turns(message)],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if schema is not None:
            form = {"name": "answer", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body if settings.temperature is None else {**body, "temperature": settings.temperature}

    async def send(self, body: dict[str, Any]) -> Reply:
        """One try, streamed.

        Raises:
            BrokenStream: the answer ended before it was complete.
            MalformedAnswer: it is none.
            openai.APIError: whatever the SDK says.
        """
        answer = self._answer = _Answer()
        self._asked = body
        short = {name: value for name, value in body.items() if name not in _LONG}
        long = {name: value for name, value in body.items() if name in _LONG}
        stream = await self._sdk.chat.completions.create(**short, messages=[], extra_body=long)
        async with stream:
            try:
                async for chunk in stream:
                    answer.add(chunk)
                    await asyncio.sleep(0)  # A long answer may be here at once: other agents have their turn.
            except (AttributeError, IndexError, TypeError, UnicodeDecodeError) as error:
                raise MalformedAnswer(f"{type(error).__name__}: {error}") from error
        return answer.reply(body)

    def streamed(self) -> Usage | None:
        """What a server counts comes with its last chunk: before that it is estimated."""
        return self._answer.usage_of(self._asked) if self._answer.chunks else None

    def keep(self, reply: Reply) -> None:
        """Nothing: text and calls are all that goes back."""

    def fault(self, error: Exception) -> Fault | None:
        """The fault behind an exception of :meth:`send`."""
        return classify(error, openai, self._model, self._settings)


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Answer:
    """A stream's chunks, put together."""

    chunks: int = 0
    text: str = ""
    refusal: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)
    finish: str = ""
    usage: Any = None

    def add(self, chunk: Any) -> None:
        self.usage = getattr(chunk, "usage", None) or self.usage
        choices = getattr(chunk, "choices", None)
        if choices is None:
            return
        self.chunks += 1
        for choice in choices[:1]:
            self.finish = choice.finish_reason or self.finish
            delta = choice.delta
            self.text += delta.content or ""
            self.refusal += getattr(delta, "refusal", None) or ""
            for part in delta.tool_calls or ():
                self._add_call(part)

    def _add_call(self, part: Any) -> None:
        # Some servers number every call 0 and tell them apart by their ids.
        index = part.index if part.index is not None else len(self.calls)
        call = self.calls.get(index)
        if call is not None and part.id and call.id and part.id != call.id:
            index, call = len(self.calls), None
        call = self.calls.setdefault(index, call or _Call())
        call.id = part.id or call.id
        if part.function is not None:
            call.name = part.function.name or call.name
            call.arguments += part.function.arguments or ""

    def reply(self, body: dict[str, Any]) -> Reply:
        if not self.chunks:
            raise MalformedAnswer("no chunk of a completion")
        if not self.finish:
            raise BrokenStream("no reason to finish")
        tools = tuple(
            ToolRequest(id=call.id or f"call_{index}", name=call.name, arguments=call.arguments or "{}")
            for index, call in sorted(self.calls.items())
        )
        reason = "refusal" if self.refusal else self.finish
        return Reply(
            text=self.text or self.refusal,
            tools=tools,
            stop=stop_of(reason, wants_tools=bool(tools)),
            stop_reason=reason,
            usage=self.usage_of(body),
        )

    def usage_of(self, body: dict[str, Any]) -> Usage:
        usage = self.usage
        prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        if not isinstance(prompt, int) or not isinstance(completion, int):
            written = self.text + "".join(call.arguments for call in self.calls.values())
            return Usage(
                input_tokens=estimated_tokens(canonical(body)),
                output_tokens=estimated_tokens(written),
                is_estimated=True,
            )
        details = getattr(usage, "prompt_tokens_details", None)
        read = getattr(details, "cached_tokens", None) or 0
        write = getattr(details, "cache_write_tokens", None) or 0
        return Usage(
            input_tokens=max(0, prompt - read - write),
            output_tokens=completion,
            cache_read_tokens=read,
            cache_write_tokens=write,
        )


def _turns(message: LLMMessage) -> list[Turn]:
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.content}]
    if isinstance(message, UserMessage):
        texts = [message.content] if isinstance(message.content, str) else [str(part) for part in message.content]
        return [{"role": "user", "content": "\n\n".join(filter(None, texts))}]
    if isinstance(message, FunctionExecutionResultMessage):
        return [{"role": "tool", "tool_call_id": r.call_id, "content": r.content} for r in message.content]
    assert isinstance(message, AssistantMessage)
    if isinstance(message.content, str):
        return [{"role": "assistant", "content": message.content}] if message.content.strip() else []
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _object(call.arguments)}}
        for call in message.content
    ]
    return [{"role": "assistant", "content": message.thought or None, "tool_calls": calls}]


def _object(arguments: str) -> str:
    """Servers refuse a conversation in which a model once wrote broken JSON."""
    try:
        return arguments if isinstance(json.loads(arguments), dict) else "{}"
    except ValueError:
        return "{}"


def _tool(tool: ToolSchema) -> dict[str, Any]:
    empty = {"type": "object", "properties": {}}
    function = {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool.get("parameters", empty),
    }
    return {"type": "function", "function": function}
