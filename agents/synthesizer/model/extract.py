"""From a completion to a candidate file: the one text in it that parses and defines what the harness calls.

A fenced Python block is asked for. Many models and servers write thinking, unfenced files or calls of tools into the
text instead. What can mean one file only is taken; anything else is refused with what was seen.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from itertools import islice

from ....hardware.languages.cpp import LOADER
from ....hardware.languages.loaders import defined, with_loader
from ....hardware.sources.parsing import parse
from ....schemas import Schema
from .fences import Block, is_fenced, read_blocks
from .written_calls import WrittenCall, written_calls

ENTRY_POINTS = ("kernel", "ModelNew")
"""What a candidate file must define one of, at module level."""
LOADER_MARK = "# (_load() is inserted here)\n"
"""Stands for the loader in prompts: nobody needs to read or repeat it."""

_THINKING = re.compile(r"<(think|thinking)>.*?</\1>|\[THINK\].*?\[/THINK\]", re.DOTALL)
_THINKING_ENDS = re.compile(r".*(?:</think>|</thinking>|\[/THINK\])", re.DOTALL)
"""Templates that open the thinking themselves leave only its end in the answer."""
_THINKING_BEGINS = re.compile(r"\s*(?:<think>|<thinking>|\[THINK\])")
_FILE_BEGINS = re.compile(r'(?:import|from) |"""|#')
_MOST_BEGINNINGS = 20
"""Lines that are tried as the first one of a file without a fence."""
_PYTHON = ("python", "py", "python3", "py3")
_RATIONALE_CHARACTERS = 600


class Rejected(Exception):
    """A completion holds no candidate; the message says why, to people and to the model."""


class ExtractedCandidate(Schema, frozen=True, kw_only=True):
    """A candidate file in a completion."""

    source: str
    rationale: str
    """The text before the block, shortened."""


def candidate_in(completion: str) -> ExtractedCandidate:
    """The candidate file of a completion, its loader put in.

    Raises:
        Rejected: no text in it can be the file, or several can.
    """
    text = _without_thinking(completion)
    blocks, unclosed = read_blocks(text, _parses)
    if unclosed is not None:
        raise Rejected(
            f"the fenced block that {unclosed!r} opens is not closed by a line of its own: the answer ended early, or "
            "the last fence stands within a line of code that is no valid Python"
        )
    python = [block for block in blocks if block.tag.lower() in _PYTHON]
    # A block without a tag is what the answer has instead, not beside it.
    python = python or [block for block in blocks if not block.tag]
    calls = list(written_calls(text))
    submitted = [call for call in calls if call.tool == "submit"]
    files = [ExtractedCandidate(source=_file(block), rationale=block.before) for block in python]
    files += [ExtractedCandidate(source=call.source, rationale=call.idea) for call in submitted]
    if not files and not calls and not is_fenced(text):
        files = list(_unfenced(text))
    whole = {file.source.strip(): file for file in reversed(files) if _is_candidate(file.source)}
    if len(whole) > 1:
        places = _places(python, submitted)
        raise Rejected(f"the answer holds {len(whole)} different files in {places}: exactly one file is wanted")
    if whole:
        (file,) = whole.values()
        rationale = file.rationale.strip()[-_RATIONALE_CHARACTERS:].strip()
        return ExtractedCandidate(source=with_loader(file.source), rationale=rationale)
    if len(files) == 1:
        checked_source(files[0].source)
    raise Rejected(_missing(blocks, python, calls))


def file_in(text: str) -> str:
    """``text`` if it is a Python file or no Markdown; else the candidate file in its fenced block.

    Raises:
        Rejected: there is none, or there are several.
    """
    return candidate_in(text).source if is_fenced(text) and not _parses(text) else text


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


def _without_thinking(completion: str) -> str:
    """What was thought may hold drafts.

    Raises:
        Rejected: nothing else is there.
    """
    text = _THINKING_ENDS.sub("", _THINKING.sub("", completion))
    if _THINKING_BEGINS.match(text):
        raise Rejected("the answer is its thinking alone, which does not end")
    if completion.strip() and not text.strip():
        raise Rejected("the answer is its thinking alone: no file stands behind it")
    return text


def _file(block: Block) -> str:
    """The text of a block, less the indentation that all of its lines have where the fence had less."""
    dedented = textwrap.dedent(block.text)
    return dedented if not _parses(block.text) and _parses(dedented) else block.text


def _unfenced(text: str) -> Iterator[ExtractedCandidate]:
    """The answer from a line on, the first from which it is a file to its end."""
    lines = text.strip().splitlines()
    beginnings = (number for number, line in enumerate(lines) if number == 0 or _FILE_BEGINS.match(line))
    for number in islice(beginnings, _MOST_BEGINNINGS):
        rest = "\n".join(lines[number:]) + "\n"
        if _is_candidate(rest):
            yield ExtractedCandidate(source=rest, rationale="\n".join(lines[:number]))
            return


def _places(blocks: list[Block], calls: list[WrittenCall]) -> str:
    """``2 fenced Python blocks and 1 call of `submit` written as text``."""
    parts = [f"{len(blocks)} fenced Python block{'s' * (len(blocks) > 1)}"] * bool(blocks)
    parts += [f"{len(calls)} call{'s' * (len(calls) > 1)} of `submit` written as text"] * bool(calls)
    return " and ".join(parts)


def _missing(blocks: list[Block], python: list[Block], calls: list[WrittenCall]) -> str:
    """Why there is no file in an answer with so many blocks."""
    if python:
        return f"the answer holds {len(python)} fenced Python blocks, and none is a whole file: exactly one is wanted"
    if calls:
        names = ", ".join(dict.fromkeys(f"`{call.tool}`" for call in calls))
        return f"the answer calls {names} in its text, where no tool is carried out, and holds no file"
    if blocks:
        tags = ", ".join(dict.fromkeys(f"```{block.tag}" for block in blocks))
        return f"the answer holds no fenced ```python block, only {tags}"
    return "the answer holds no fenced ```python block, and as a whole it is no Python file"


def _is_candidate(source: str) -> bool:
    try:
        checked_source(source)
    except Rejected:
        return False
    return True


def _parses(source: str) -> bool:
    try:
        _parsed(source)
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
