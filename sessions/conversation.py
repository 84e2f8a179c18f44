"""A node's conversation with a model, turn by turn, from its events: nothing is told twice."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..schemas import Envelope, KnowledgeRetrieved, ModelCalled, RoleDecided, Schema, ToolCalled


class Turn(Schema, frozen=True, kw_only=True):
    """Something that was said, looked up or tried."""

    who: str
    """``system``, ``user``, ``model``, ``tool``, ``knowledge``, or ``role``: what a role made of a model's answer."""
    title: str
    """What it is, in a few words: the model and its tokens, the tool and its time, the role if it is not the author."""
    text: str


def conversation_of(events: Iterable[Envelope], node: str) -> tuple[Turn, ...]:
    """The turns of ``node``, in order; none if no model was asked for it."""
    turns: list[Turn] = []
    asked: list[tuple[str, str]] = []
    for envelope in events:
        if envelope.node != node:
            continue
        match envelope.event():
            case ModelCalled() as call:
                turns += _new_turns(call, asked)
                turns.append(_answer(call))
            case ToolCalled() as call:
                failed = ", failed" if call.failed else ""
                asker = f"{_words(call.role)}: " if call.role else ""
                title = f"{asker}{call.tool}, {call.seconds:.1f} s{failed}"
                turns.append(Turn(who="tool", title=title, text=f"{_arguments(call.arguments)}\n\n{call.result}"))
            case RoleDecided() as decided:
                by = f"{decided.backend} {decided.model}" if decided.by_model else "its rules"
                reason = decided.fault or decided.reason
                turns.append(Turn(who="role", title=f"{decided.role} goes by {by}", text=reason))
            case KnowledgeRetrieved() as retrieved:
                lines = [f"{document.path}: {', '.join(document.reasons)}" for document in retrieved.documents]
                turns.append(Turn(who="knowledge", title=f"looked up by {retrieved.by}", text="\n".join(lines)))
    return tuple(turns) if any(turn.who == "model" for turn in turns) else ()


def _new_turns(call: ModelCalled, asked: list[tuple[str, str]]) -> Iterator[Turn]:
    """What the request says that none before it said. Results of tools and the model's own answers stand elsewhere."""
    for role, text in messages(call.request):
        if role in ("system", "user") and text and (role, text) not in asked:
            asked.append((role, text))
            yield Turn(who=role, title=f"to the {_words(call.role)}" if call.role else "", text=text)


def _answer(call: ModelCalled) -> Turn:
    asker = f"{_words(call.role)}: " if call.role else ""
    if call.error:
        return Turn(who="model", title=f"{asker}{call.model}, try {call.attempt} failed", text=call.error)
    prompt = call.input_tokens + call.cache_read_tokens + call.cache_write_tokens
    cost = "" if call.cost is None else f", ${call.cost:.4f}"
    title = (
        f"{asker}{call.model}, {prompt:,} tokens asked ({call.cache_read_tokens:,} cached), "
        f"{call.output_tokens:,} answered{cost}, {call.latency_ms / 1000:.1f} s, {call.stop_reason}"
    )
    wanted = [f"calls {tool['name']}" for tool in json.loads(call.tool_calls or "[]")]
    return Turn(who="model", title=title, text="\n".join(filter(None, [call.completion, *wanted])))


def _arguments(text: str) -> str:
    """A file is easier read as one than as JSON."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    if not isinstance(arguments, dict):
        return text
    return "\n".join(f"{name}: {value}" for name, value in arguments.items())


def _words(role: str) -> str:
    return role.replace("_", " ")


def messages(request: str) -> Iterator[tuple[str, str]]:
    """Role and text of each message of a recorded request, in either vendor's format."""
    try:
        body = json.loads(request)
    except ValueError:
        yield "user", request
        return
    if body.get("system"):
        yield "system", _text_of(body["system"])
    for message in body.get("messages", ()):
        yield message["role"], _text_of(message.get("content"))


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "\n\n".join(block.get("text", "") for block in blocks if block.get("type") == "text")
