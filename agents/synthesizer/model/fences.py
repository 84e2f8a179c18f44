"""Fenced blocks of a Markdown text: by the rules of CommonMark, and what models write that is nearly so."""

import re
from collections.abc import Callable

from ....schemas import Schema

_FENCE = re.compile(r"^(?P<before>.*?)(?P<fence>`{3,}|~{3,})(?P<after>.*)$")
_MARGIN = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)*")
"""What a line of a list may begin with."""
_INFO = re.compile(r"[ \t]*(?P<tag>[\w+-]*)(?P<rest>[^`]*)")
_OPENS_WITHIN_A_LINE = re.compile(r"[ \t]*(?:python|py)3?[ \t]*", re.IGNORECASE)


class Block(Schema, frozen=True, kw_only=True):
    """A fenced block."""

    tag: str
    """First word behind the opening fence."""
    text: str
    before: str
    """All of the text before it."""


class _Opening(Schema, frozen=True, kw_only=True):
    line: int
    fence: str
    tag: str
    margin: int
    """Columns before the fence: as many may lack meaning in the block's lines."""
    before: str
    """In the same line."""


def read_blocks(text: str, parses: Callable[[str], bool]) -> tuple[list[Block], str | None]:
    """The fenced blocks of ``text``, and the line that opens a last one that is not closed.

    A fence may stand in a list. A Python block may begin behind words, when its tag ends the line. A block may end
    behind its last line, or before words: where what it holds ``parses`` then, or is another language.
    """
    lines, blocks = text.splitlines(), list[Block]()
    opening: _Opening | None = None
    for number, line in enumerate(lines):
        if opening is None:
            opening = _opening(number, line)
            continue
        last = _last_line(line, opening)
        if last is None:
            continue
        body = [_dedented(each, opening.margin) for each in lines[opening.line + 1 : number]]
        held = "\n".join([*body, *last]) + "\n"
        is_alone = not last and not line.strip(" \t").strip(opening.fence[0])
        if is_alone or _is_other_language(opening.tag) or parses(held):
            before = "\n".join([*lines[: opening.line], opening.before])
            blocks.append(Block(tag=opening.tag, text=held, before=before))
            opening = None
    if opening is None or not "".join(lines[opening.line + 1 :]).strip():
        return blocks, None
    return blocks, lines[opening.line].strip()


def is_fenced(text: str) -> bool:
    """Whether there is a fence anywhere in ``text``."""
    return any(map(_FENCE.match, text.splitlines()))


def _opening(number: int, line: str) -> _Opening | None:
    match = _FENCE.match(line)
    info = _INFO.fullmatch(match["after"]) if match else None
    if match is None or info is None:
        return None
    margin = _MARGIN.fullmatch(match["before"])
    if margin is None and not _OPENS_WITHIN_A_LINE.fullmatch(match["after"]):
        return None
    return _Opening(
        line=number,
        fence=match["fence"],
        tag=info["tag"],
        margin=len(match["before"].expandtabs()) if margin else 0,
        before="" if margin else match["before"],
    )


def _last_line(line: str, opening: _Opening) -> list[str] | None:
    """What ``line`` holds of the block that it may close; None if it closes none."""
    match = _FENCE.match(line)
    if match is None or not match["fence"].startswith(opening.fence):
        return None
    before, after = match["before"], match["after"]
    if not before.strip():
        is_near = len(before.expandtabs()) <= opening.margin + 3
        return [] if is_near and (not after.strip() or after[0] in " \t") else None
    return None if after.strip() else [_dedented(before, opening.margin)]


def _is_other_language(tag: str) -> bool:
    return bool(tag) and not _OPENS_WITHIN_A_LINE.fullmatch(tag)


def _dedented(line: str, columns: int) -> str:
    """``line`` with at most ``columns`` fewer columns of spaces before it."""
    expanded = line.expandtabs() if columns else line
    return expanded[min(columns, len(expanded) - len(expanded.lstrip(" "))) :]
