"""Cutting a manual into sections that fit a prompt: at its headings, and where those are far apart, at paragraphs."""

import itertools
import re
from collections.abc import Callable, Iterator

from ..schemas import Schema

MOST_CHARACTERS = 5_000
"""Longest section; a longer one becomes several."""
FEWEST_CHARACTERS = 200
"""A shorter one goes with the next: a heading alone helps nobody."""

_MARKDOWN = re.compile(r"(#{1,4})\s+(.+?)\s*#*$")
_NUMBER = r"\d{1,2}(?:\.\d{1,3}){0,4}|[A-Z](?:\.\d{1,3}){1,4}"
_NUMBERED = re.compile(rf"(?:[Cc]hapter |[Ss]ection |[Aa]ppendix )?({_NUMBER})\.?\s+([A-Z][^.!?]{{2,80}})$")
_FENCE = ("```", "~~~")


class Section(Schema, frozen=True, kw_only=True):
    """A piece of a manual."""

    title: str
    """The headings above it: ``Memory > Coalescing``; of several short pieces all: ``Memory > Banks, Caches``."""
    text: str
    page: int = 0
    """Page it begins on, from 1; 0 where there are no pages."""


Heading = tuple[int, str]
"""Level from 1, and the words."""
HeadingsOf = Callable[[list[str]], Iterator[Heading | None]]
"""For each line of a page its heading, or None."""


def markdown_sections(text: str, name: str) -> tuple[Section, ...]:
    """The sections of a Markdown document called ``name``, by its headings of levels 1 to 4; code stays whole."""
    return _sections([(0, text)], name, _markdown_headings)


def text_sections(pages: list[str], name: str) -> tuple[Section, ...]:
    """The sections of plain text, by numbered headings (``3.2 Shared memory``); ``pages`` is one text for each page."""
    numbers = range(1, len(pages) + 1) if len(pages) > 1 else (0,)
    return _sections(list(zip(numbers, pages, strict=True)), name, _numbered_headings)


def _markdown_headings(lines: list[str]) -> Iterator[Heading | None]:
    fenced = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
        match = None if fenced else _MARKDOWN.match(line)
        yield (len(match[1]), match[2]) if match else None


def _numbered_headings(lines: list[str]) -> Iterator[Heading | None]:
    for line in lines:
        match = _NUMBERED.match(line.strip())
        # A line of a table of contents ends with dots and a page number: it is no heading.
        is_heading = match is not None and not re.search(r"(\.\s?){3,}|\s\d+$", line)
        yield (match[1].count(".") + 1, line.strip()) if match and is_heading else None


def _sections(pages: list[tuple[int, str]], name: str, headings_of: HeadingsOf) -> tuple[Section, ...]:
    sections: list[Section] = []
    path: list[Heading] = []
    covered: list[list[Heading]] = []
    lines: list[str] = []
    begun = pages[0][0] if pages else 0

    def close() -> None:
        body = "\n".join(lines).strip()
        if body:
            sections.append(Section(title=_title(name, covered), text=body, page=begun))
        lines.clear()

    for number, page in pages:
        page_lines = page.splitlines()
        for line, heading in zip(page_lines, headings_of(page_lines), strict=True):
            if heading is not None and sum(map(len, lines)) >= FEWEST_CHARACTERS:
                close()
            if heading is not None:
                path = [above for above in path if above[0] < heading[0]] + [heading]
                covered = [above for above in covered if lines and above != path[: len(above)]] + [path]
            if not lines:
                begun = number
            lines.append(line)
    close()
    return tuple(part for section in sections for part in _parts(section))


def _title(name: str, covered: list[list[Heading]]) -> str:
    """The headings that all pieces of a section have in common, then what each has besides."""
    paths = [[words for _, words in path if words != name] for path in covered]
    levels = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*paths, strict=False))
    shared = [words[0] for words in levels]
    own = filter(None, (" > ".join(path[len(shared) :]) for path in paths))
    return " > ".join(filter(None, [name, *shared, ", ".join(own)]))


def _parts(section: Section) -> Iterator[Section]:
    """The section in pieces of at most :data:`MOST_CHARACTERS`, cut between paragraphs, or lines, or anywhere."""
    pieces = _pieces(section.text)
    for number, piece in enumerate(pieces, 1):
        title = section.title if len(pieces) == 1 else f"{section.title} ({number} of {len(pieces)})"
        yield Section(title=title, text=piece, page=section.page)


def _pieces(text: str) -> list[str]:
    pieces = []
    while len(text) > MOST_CHARACTERS:
        ends = (text.rfind(mark, MOST_CHARACTERS // 2, MOST_CHARACTERS) for mark in ("\n\n", "\n"))
        cut = next((end for end in ends if end > 0), MOST_CHARACTERS)
        pieces.append(text[:cut].strip())
        text = text[cut:].strip()
    return [piece for piece in (*pieces, text) if piece]
