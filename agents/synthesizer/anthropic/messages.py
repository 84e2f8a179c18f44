"""Between AutoGen's messages and the Messages format of the Anthropic API."""

import json
from collections.abc import Sequence
from typing import Any

from anthropic.types import Message
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from .faults import MalformedAnswer
from .settings import Settings

_CACHED = {"type": "ephemeral"}


def request_body(messages: Sequence[LLMMessage], model: str, settings: Settings) -> dict[str, Any]:
    """The Messages request: texts only, no identifier or time stamp of AutoGen's.

    What stays the same over a session (the system prompt, the first block of the first message) is marked for caching.
    """
    system = [{"type": "text", "text": m.content, "cache_control": _CACHED} for m in messages if _is_system(m)]
    turns = [turn for m in messages if not _is_system(m) and (turn := _turn(m)) is not None]
    if turns and len(turns[0]["content"]) > 1:
        turns[0]["content"][0]["cache_control"] = _CACHED
    body: dict[str, Any] = {"model": model, "max_tokens": settings.max_tokens, "system": system, "messages": turns}
    return body if settings.temperature is None else {**body, "temperature": settings.temperature}


def canonical(body: dict[str, Any]) -> str:
    """``body`` as JSON that is the same for the same request."""
    return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def answer_text(message: Message) -> str:
    """The text of an answer, thinking left out."""
    return "".join(block.text for block in message.content if block.type == "text")


def _is_system(message: LLMMessage) -> bool:
    return isinstance(message, SystemMessage)


def _turn(message: LLMMessage) -> dict[str, Any] | None:
    if isinstance(message, UserMessage):
        texts = [message.content] if isinstance(message.content, str) else [str(part) for part in message.content]
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts if text]}
    if isinstance(message, AssistantMessage) and isinstance(message.content, str):
        # The API refuses an empty block, and an empty answer is what a second try follows.
        text = message.content.rstrip()
        return {"role": "assistant", "content": [{"type": "text", "text": text}]} if text else None
    raise ValueError(f"this client speaks text only, not {type(message).__name__}")


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


def prompt_tokens(message: Message) -> int:
    """Every token of the request, read from or written to the cache or neither."""
    usage = message.usage
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
