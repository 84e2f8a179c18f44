"""What the command line's grammar refuses, in our words: what is needed, and where to find it."""

import re
from typing import Any

from .nearest import nearest

_NOT_ONE_OF = re.compile(r"(?:Value error, )?'(?P<value>.*)' is not one of (?P<choices>.+?)\.?$", re.DOTALL)
_KINDS = {"valid integer": "give a whole number", "valid number": "give a number"}
"""How the library words what is no number."""


def mistake(error: Any) -> str:
    """The sentence for a usage error of typer's, whichever version of click it carries inside."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return str(error.format_message())
    name = parameter.name.upper() if parameter.param_type_name == "argument" else max(parameter.opts, key=len)
    if type(error).__name__ == "MissingParameter":
        return f"{error.ctx.command_path} needs {name}: {_to_give(error)}"
    return _unusable(name, _given(error), str(error.message))


def _given(error: Any) -> str:
    """What stands behind the option, as a word behind a blank; empty if the library does not say."""
    refused = getattr(error.__cause__, "errors", None)
    return "".join(f" {detail['input']!r}" for detail in refused()[:1]) if callable(refused) else ""


def _to_give(error: Any) -> str:
    """What to give for what is missing: its choices, or what its help says behind its name."""
    choices = re.findall(r"^\t(\w+),?$", error.format_message(), re.MULTILINE)
    if choices:
        return f"choose one of {', '.join(choices)}"
    help_text = (error.param.help or "").rstrip(".")
    named, _, rest = help_text.partition("; ") if "; " in help_text else help_text.partition(": ")
    return rest or named[:1].lower() + named[1:]


def _unusable(name: str, given: str, message: str) -> str:
    wrong = _NOT_ONE_OF.search(message)
    if wrong is not None:
        choices = re.findall(r"'([^']*)'", wrong["choices"])
        meant = nearest(wrong["value"], choices) or ":"
        return f"{name} {wrong['value']!r} is unknown{meant} choose one of {', '.join(choices)}"
    for kind, advice in _KINDS.items():
        if kind in message:
            return f"{name}{given}: {advice}"
    reason = message.removeprefix("Value error, ").replace("Input should be", "it must be")
    return f"{name}{given}: {reason.rstrip('.')}"
