"""An answer in the Chat Completions format with all that models send: text, a tool's call, the tokens."""

import json
from typing import Any

_CHUNK = {"id": "m", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "t"}'}}
_DELTAS: tuple[tuple[dict[str, Any], str | None], ...] = (
    ({"role": "assistant", "content": "t"}, None),
    ({"tool_calls": [_CALL]}, None),
    ({}, "tool_calls"),
)
_TOKENS = {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, **_TOKENS}
_CHUNKS = (
    *({**_CHUNK, "choices": [{"index": 0, "delta": d, "finish_reason": finish}]} for d, finish in _DELTAS),
    {**_CHUNK, "choices": [], "usage": _USAGE},
)
ANSWER = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in _CHUNKS) + "data: [DONE]\n\n"
"""The whole stream."""
