"""The JSON object in a model's answer, wherever it stands, and the schema that asks for it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .consultation import Unusable

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}


def object_of(fields: Mapping[str, Schema]) -> Schema:
    """An object with all of ``fields`` and no others: the only kind that every vendor's strict mode takes.

    Bounds of numbers, lengths and counts are left to the reader of the answer: vendors refuse some of them.
    """
    return {"type": "object", "properties": dict(fields), "required": list(fields), "additionalProperties": False}


def list_of(items: Schema) -> Schema:
    """Any number of ``items``."""
    return {"type": "array", "items": items}


def name_of(names: Iterable[str]) -> Schema:
    """One of ``names``."""
    return {"type": "string", "enum": [str(name) for name in names]}


def json_object(text: str) -> dict[str, Any]:
    """The largest JSON object in ``text``: alone, in a fence, or among sentences.

    Raises:
        Unusable: there is none.
    """
    decoder, best, best_length, position = json.JSONDecoder(), None, 0, text.find("{")
    while position >= 0:
        length = 1
        try:
            value, end = decoder.raw_decode(text, position)
            length = end - position
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and length > best_length:
            best, best_length = value, length
        position = text.find("{", position + length)
    if best is None:
        raise Unusable("the answer holds no complete JSON object")
    return best
