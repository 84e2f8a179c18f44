"""An answer in the Messages format with a block of each kind that models send: a thought, text, a tool's call."""

import json
from typing import Any

_USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
_MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": _USAGE}
_BLOCKS: tuple[tuple[dict[str, Any], tuple[dict[str, Any], ...]], ...] = (
    (
        {"type": "thinking", "thinking": "", "signature": ""},
        ({"type": "thinking_delta", "thinking": "t"}, {"type": "signature_delta", "signature": "s"}),
    ),
    ({"type": "text", "text": ""}, ({"type": "text_delta", "text": "t"},)),
    (
        {"type": "tool_use", "id": "c", "name": "look", "input": {}},
        ({"type": "input_json_delta", "partial_json": '{"at": "t"}'},),
    ),
)
_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {**_MESSAGE, "stop_reason": None, "stop_sequence": None}},
    *(
        event
        for index, (block, deltas) in enumerate(_BLOCKS)
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        )
    ),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
)
ANSWER = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _EVENTS)
"""The whole stream."""
