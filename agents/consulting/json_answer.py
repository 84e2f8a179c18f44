"""The JSON object in a model's answer, wherever it stands."""

import json
from typing import Any

from .consultation import Unusable


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
