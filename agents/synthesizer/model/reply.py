"""A model's answer, whoever gave it."""

from enum import StrEnum

from ....schemas import Schema


class Stop(StrEnum):
    """Why an answer ended."""

    end = "end"
    tools = "tools"
    """It wants tools to be called."""
    length = "length"
    """It was cut off."""
    refusal = "refusal"
    other = "other"


_STOPS = {
    "end_turn": Stop.end,
    "stop_sequence": Stop.end,
    "stop": Stop.end,
    "tool_use": Stop.tools,
    "tool_calls": Stop.tools,
    "function_call": Stop.tools,
    "max_tokens": Stop.length,
    "model_context_window_exceeded": Stop.length,
    "length": Stop.length,
    "refusal": Stop.refusal,
    "content_filter": Stop.refusal,
}


def stop_of(reason: str, *, wants_tools: bool) -> Stop:
    """What a provider's ``reason`` means; some say ``stop`` beside their calls of tools."""
    stop = _STOPS.get(reason, Stop.other)
    return Stop.tools if wants_tools and stop is Stop.end else stop


class ToolRequest(Schema, frozen=True, kw_only=True):
    """A tool that the model wants called."""

    id: str
    """The server's name of this call."""
    name: str
    arguments: str
    """JSON, as the model wrote it: it may be broken."""


class Usage(Schema, frozen=True, kw_only=True):
    """Tokens of one request and its answer."""

    input_tokens: int
    """Of the request, those that no cache was read or written for."""
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_estimated: bool = False
    """The server did not say; counted by characters."""

    @property
    def prompt_tokens(self) -> int:
        """Every token of the request."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class Reply(Schema, frozen=True, kw_only=True):
    """One whole answer."""

    text: str
    """What it says, thinking left out."""
    tools: tuple[ToolRequest, ...] = ()
    stop: Stop
    stop_reason: str
    """As the provider says it."""
    usage: Usage
    blocks: str = ""
    """JSON that the provider wants back with the results of tools, where it is more than text and calls: thinking."""
