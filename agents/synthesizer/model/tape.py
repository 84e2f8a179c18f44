"""A recorded conversation in place of a model and its tools: the same code asks, and gets what the log holds.

The requests of an author and of its sub-agents are built anew and held against the recorded ones, to the byte. How
long an answer might be is not compared: what was under way beside it decided that.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import LLMMessage
from autogen_core.tools import BaseTool, ToolSchema

from ....schemas import ModelCalled, ToolCalled
from .client import ANSWER_LIMITS, canonical
from .faults import Fault
from .reply import Reply, ToolRequest, Usage, stop_of
from .wire import Wire

_HANDED_IN = "handed in"
"""Result of the call of ``submit`` that ended its conversation."""


class TapeEnded(Exception):
    """Nothing more was recorded: a limit or a kill ended the conversation."""


class _RecordedFault(Exception):
    """A try that failed."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass
class Tape:
    """What was recorded of one node's author and sub-agents; :attr:`same` and :attr:`other` fill as it is played."""

    calls: list[tuple[str, ModelCalled]]
    """Events of requests with their ids, oldest first; played ones are taken out."""
    tools: list[ToolCalled]
    same: int = 0
    """Requests that were built again, to the byte."""
    other: list[str] = field(default_factory=list)
    """Ids of those that were not."""

    def answer(self, body: Mapping[str, Any], role: str) -> tuple[ModelCalled, bool]:
        """The recorded try behind ``body``, and whether another one of the same request follows.

        Raises:
            TapeEnded: ``role`` has asked everything that it asked then.
        """
        own = [entry for entry in self.calls if entry[1].role == role]
        if not own:
            raise TapeEnded
        exact = [entry for entry in own if _asks(entry[1], body)]
        entry = (exact or own)[0]
        self.calls.remove(entry)
        if exact:
            self.same += 1
        else:
            self.other.append(entry[0])
        later = [call for _, call in self.calls if call.role == role]
        return entry[1], any(call.attempt == entry[1].attempt + 1 for call in later[:1])

    def result(self, tool: str, arguments: Mapping[str, Any], role: str) -> ToolCalled:
        """The recorded call of ``tool``.

        Raises:
            TapeEnded: there is none left.
        """
        own = [call for call in self.tools if call.tool == tool and call.role == role]
        if not own:
            raise TapeEnded
        call = next((call for call in own if _arguments(call) == dict(arguments)), own[0])
        self.tools.remove(call)
        return call


class TapedWire:
    """A vendor's format over a tape."""

    def __init__(self, wire: Wire, tape: Tape, role: str = "") -> None:
        self._wire, self._tape, self._role = wire, tape, role
        self._streamed: Usage | None = None

    def body(
        self, messages: Sequence[LLMMessage], tools: Sequence[ToolSchema], schema: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """As it is sent."""
        return self._wire.body(messages, tools, schema)

    async def send(self, body: dict[str, Any]) -> Reply:
        """The recorded answer."""
        call, goes_on = self._tape.answer(body, self._role)
        if call.error:
            self._streamed = _usage_of(call)
            kind, _, message = call.error.partition(": ")
            raise _RecordedFault(Fault(kind=kind, message=message, retryable=goes_on))
        return reply_of(call)

    def streamed(self) -> Usage | None:
        """What was recorded."""
        return self._streamed

    def keep(self, reply: Reply) -> None:
        """As the vendor's."""
        self._wire.keep(reply)

    def fault(self, error: Exception) -> Fault | None:
        """The recorded one; the end of the tape is raised."""
        if isinstance(error, TapeEnded):
            raise error
        return error.fault if isinstance(error, _RecordedFault) else None


class TapedTool(BaseTool[Any, Any]):
    """A tool that answers as it did. Two are carried out: ``submit`` if it was accepted, and sub-agents."""

    def __init__(self, tool: BaseTool[Any, Any], tape: Tape, role: str = "") -> None:
        super().__init__(tool.args_type(), tool.return_type(), tool.name, tool.description)
        self._tool, self._tape, self._role = tool, tape, role

    async def run(self, args: Any, cancellation_token: CancellationToken) -> Any:
        """As :meth:`run_json`, which is what agents call."""
        return await self.run_json(args.model_dump(), cancellation_token)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """The recorded result."""
        if self.name == "deep_search":
            # Where a limit ended it, the recorded result says so.
            with suppress(TapeEnded):
                await self._tool.run_json(args, cancellation_token, call_id)
        call = self._tape.result(self.name, args, self._role)
        if call.failed:
            raise RuntimeError(call.result)
        if self.name == "submit" and call.result == _HANDED_IN:
            await self._tool.run_json(args, cancellation_token, call_id)
        return call.result


def reply_of(call: ModelCalled) -> Reply:
    """The answer that ``call`` recorded."""
    requests = json.loads(call.tool_calls or "[]")
    return Reply(
        text=call.completion,
        tools=tuple(ToolRequest(**request) for request in requests),
        stop=stop_of(call.stop_reason, wants_tools=bool(requests)),
        stop_reason=call.stop_reason,
        usage=_usage_of(call),
        blocks=call.blocks,
    )


def _usage_of(call: ModelCalled) -> Usage:
    return Usage(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cache_read_tokens=call.cache_read_tokens,
        cache_write_tokens=call.cache_write_tokens,
        is_estimated=call.estimated,
    )


def _asks(call: ModelCalled, body: Mapping[str, Any]) -> bool:
    recorded = json.loads(call.request)
    limits = {name: recorded[name] for name in ANSWER_LIMITS if name in recorded}
    rest = {name: value for name, value in body.items() if name not in ANSWER_LIMITS}
    return canonical({**rest, **limits}) == call.request


def _arguments(call: ToolCalled) -> object:
    try:
        return json.loads(call.arguments)
    except ValueError:
        return None
