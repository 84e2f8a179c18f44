"""An answer as it may go on: without secrets, within bounds, in text that can be stored, whatever the server sent."""

import json
from collections.abc import Callable

from msgspec.structs import replace

from .faults import MalformedAnswer
from .reply import Reply, ToolRequest, Usage

MOST_CHARACTERS = 1_000_000
"""Of one answer: several times what its tokens allow."""
MOST_CALLS = 16
"""Tools that one answer may want called; the others are left out."""
MOST_TOKENS = 10**8
"""No count of a server is believed beyond this, nor below 0: a limit of money would not hold."""
_TOO_DEEP = "(nested too deeply to be read)"


def cleaned(reply: Reply, redact: Callable[[str], str]) -> Reply:
    """``reply`` fit for events, files, tools and later requests; ``redact`` takes secrets out of a text.

    Raises:
        MalformedAnswer: it is far longer than was asked for.
    """
    size = len(reply.text) + len(reply.blocks) + sum(len(call.arguments) for call in reply.tools)
    if size > MOST_CHARACTERS:
        raise MalformedAnswer(f"an answer of {size:,} characters")

    def text(given: str) -> str:
        # Half of a surrogate pair is JSON, and no text.
        return redact(given.encode("utf-8", "replace").decode())

    tools = tuple(
        ToolRequest(id=text(call.id), name=text(call.name), arguments=text(_readable(call.arguments)))
        for call in reply.tools[:MOST_CALLS]
    )
    return replace(
        reply,
        text=text(reply.text),
        tools=tools,
        stop_reason=text(reply.stop_reason),
        blocks=text(reply.blocks) if len(tools) == len(reply.tools) else "",
        usage=counted(reply.usage),
    )


def _readable(arguments: str) -> str:
    """What nobody can parse, without what would end the parser; broken JSON is told to the model as it is."""
    try:
        json.loads(arguments)
    except RecursionError:
        return _TOO_DEEP
    except ValueError:
        pass
    return arguments


def counted(usage: Usage) -> Usage:
    """``usage`` within what can be believed."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return replace(usage, **{name: max(0, min(getattr(usage, name), MOST_TOKENS)) for name in names})
