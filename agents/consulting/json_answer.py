"""The JSON object in a model's answer, wherever it stands, and the schema that asks for it."""

import json
from collections.abc import Iterable, Iterator, Mapping
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
    objects = [(end - start, value) for start, end, value in json_objects(text)]
    if not objects:
        raise Unusable("the answer holds no complete JSON object")
    return max(objects, key=lambda sized: sized[0])[1]


def json_objects(text: str, *, strict: bool = True) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The JSON objects in ``text`` that stand in no other, each with its beginning and end.

    Args:
        text: What they stand in.
        strict: Whether a string that holds line ends as they are is no JSON.
    """
    decoder, position = json.JSONDecoder(strict=strict), text.find("{")
    while position >= 0:
        end = position + 1
        try:
            value, end = decoder.raw_decode(text, position)
            yield position, end, value
        except (ValueError, RecursionError):
            pass
        position = text.find("{", end)
