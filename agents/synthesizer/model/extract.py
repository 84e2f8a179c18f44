"""From a completion to a candidate file: one fenced Python block that parses and defines what the harness calls."""

import ast
import re
from collections.abc import Iterator

from ....hardware.languages.cpp import LOADER
from ....hardware.languages.loaders import defined, with_loader
from ....hardware.sources.parsing import parse
from ....schemas import Schema

ENTRY_POINTS = ("kernel", "ModelNew")
"""What a candidate file must define one of, at module level."""
LOADER_MARK = "# (_load() is inserted here)\n"
"""Stands for the loader in prompts: nobody needs to read or repeat it."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*$")
_PYTHON = ("python", "py", "python3")
_RATIONALE_CHARACTERS = 600


class Rejected(Exception):
    """A completion holds no candidate; the message says why, to people and to the model."""


class ExtractedCandidate(Schema, frozen=True, kw_only=True):
    """A candidate file in a completion."""

    source: str
    rationale: str
    """The text before the block, shortened."""


class _Block(Schema, frozen=True, kw_only=True):
    tag: str
    text: str
    start: int
    """Line of the opening fence, from 0."""


def candidate_in(completion: str) -> ExtractedCandidate:
    """The candidate file of a completion, its loader put in.

    Raises:
        Rejected: there is no fenced Python block or more than one, it does not parse, or defines no entry point.
    """
    block = _only_python_block(completion)
    source = with_loader(checked_source(block.text))
    before = "\n".join(completion.splitlines()[: block.start]).strip()
    return ExtractedCandidate(source=source, rationale=before[-_RATIONALE_CHARACTERS:].strip())


def checked_source(source: str) -> str:
    """``source`` if it parses and defines ``kernel`` or ``ModelNew``.

    Raises:
        Rejected: it does not.
    """
    tree = _parsed(source)
    if not set(defined(tree)) & set(ENTRY_POINTS):
        raise Rejected("the file defines neither `def kernel` nor `class ModelNew` at module level")
    return source


def without_loader(source: str) -> str:
    """``source`` with a mark in place of the loader, for prompts."""
    return source.replace(LOADER, LOADER_MARK)


def _only_python_block(completion: str) -> _Block:
    blocks = list(_blocks(completion))
    python = [block for block in blocks if block.tag.lower() in _PYTHON]
    # A lone block without a tag can mean nothing else; several Python blocks may be one file and its illustrations.
    if not python and len(blocks) == 1 and not blocks[0].tag:
        python = blocks
    if len(python) > 1:
        python = [block for block in python if _is_candidate(block.text)] or python
    if not python:
        raise Rejected("the answer holds no fenced ```python block")
    if len(python) > 1:
        raise Rejected(f"the answer holds {len(python)} fenced Python blocks: exactly one file is wanted")
    return python[0]


def _blocks(text: str) -> Iterator[_Block]:
    """Fenced blocks, by the rules of CommonMark: closed by a fence at least as long, of the same character.

    Raises:
        Rejected: a block is opened and not closed.
    """
    lines = text.splitlines()
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if opened is None:
            opened = (number, match[1], match[2])
        elif not match[2] and match[1].startswith(opened[1]):
            body = "\n".join(lines[opened[0] + 1 : number]) + "\n"
            yield _Block(tag=opened[2], text=body, start=opened[0])
            opened = None
    if opened is not None:
        raise Rejected("the fenced block is not closed: the answer ended early")


def _is_candidate(source: str) -> bool:
    try:
        checked_source(source)
    except Rejected:
        return False
    return True


def _parsed(source: str) -> ast.Module:
    try:
        return parse(source)
    except SyntaxError as error:
        raise Rejected(f"the file is not valid Python: {error.msg} in line {error.lineno}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Rejected(f"the file is not valid Python: {error or type(error).__name__}") from error
