"""Markdown with a YAML head between two lines of ``---``."""

import yaml

from ..schemas import InputError

Head = dict[str, str | int | float | bool | list[str] | None]
"""A front matter: flat, lists of words at most."""

_LINE = "---"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Seven times as fast, where PyYAML was built with libyaml: all documents are read when a session starts."""


def split(text: str, name: str) -> tuple[Head, str]:
    """Head and body of a document; ``name`` is for the message.

    Raises:
        InputError: there is no front matter, or it is no flat mapping.
    """
    lines = text.splitlines()
    if not lines or lines[0] != _LINE or _LINE not in lines[1:]:
        raise InputError(f"{name} has no front matter: begin it with {_LINE}, `key: value` lines, and {_LINE}")
    end = lines.index(_LINE, 1)
    try:
        head = yaml.load("\n".join(lines[1:end]), Loader=_LOADER)
    except yaml.YAMLError as error:
        raise InputError(f"the front matter of {name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(head, dict) or not all(isinstance(key, str) for key in head):
        raise InputError(f"the front matter of {name} is not a mapping of names to values")
    return head, "\n".join(lines[end + 1 :]).strip() + "\n"


def join(head: Head, body: str) -> str:
    """The document with ``head`` in the order given."""
    dumped = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, default_flow_style=None, width=10_000)
    return f"{_LINE}\n{dumped}{_LINE}\n\n{body.strip()}\n"
