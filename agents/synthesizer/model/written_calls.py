"""Calls of tools that stand in a text: servers without a parser for a model's own format hand them on as they are."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ....schemas import Schema
from ...consulting import json_objects

_NAMES = re.compile(r"\b(submit|check|compile)\b")
"""Tools that take a file."""
_ELEMENT = re.compile(
    r'<(?:function=|invoke name="|tool_call>\s*)(\w+)"?>?(.*?)</(?:function|invoke|tool_call)>', re.DOTALL
)
_ARGUMENT = re.compile(
    r'<(?:parameter=|parameter name="|arg_key>)(\w+)(?:"?>|</arg_key>\s*<arg_value>)\n?(.*?)</(?:parameter|arg_value)>',
    re.DOTALL,
)


class WrittenCall(Schema, frozen=True, kw_only=True):
    """A call of a tool, as text."""

    tool: str
    source: str = ""
    """The file that it carries."""
    idea: str = ""


def written_calls(text: str) -> Iterator[WrittenCall]:
    """The calls in ``text``: as JSON (Hermes, Qwen, Mistral, Llama, DeepSeek, gpt-oss) or in tags (Qwen Coder, GLM)."""
    for start, _, value in json_objects(text, strict=False):
        function = value.get("function")
        call: Mapping[str, Any] = function if isinstance(function, dict) else value
        tool, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
        if isinstance(arguments, str):
            arguments = next((inner for _, _, inner in json_objects(arguments, strict=False)), None)
        if isinstance(tool, str) and isinstance(arguments, dict):
            yield _call(tool, arguments)
        elif isinstance(value.get("source"), str):
            # The arguments alone: the name stands before them, in a format of the model's own.
            names = _NAMES.findall(text[max(0, start - 80) : start])
            yield _call(names[-1] if names else "submit", value)
    for element in _ELEMENT.finditer(text):
        arguments = dict(_ARGUMENT.findall(element[2]))
        if arguments:
            yield _call(element[1], arguments)


def _call(tool: str, arguments: Mapping[str, Any]) -> WrittenCall:
    source, idea = (arguments.get(name) for name in ("source", "idea"))
    return WrittenCall(
        tool=tool, source=source if isinstance(source, str) else "", idea=idea if isinstance(idea, str) else ""
    )
