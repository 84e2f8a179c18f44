"""Which files a command line, or JSON on stdin, hands in under which lease."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...hardware.sources.problem_files import load_candidate
from ...schemas import InputError, Schema


class Draft(Schema, frozen=True, kw_only=True):
    """One file for one lease."""

    lease: str
    source: str = ""
    """The file itself, or empty."""
    file: str = ""
    """Its path, where ``source`` is empty."""
    rationale: str = ""


def drafts(words: Sequence[str]) -> list[Draft]:
    """Pairs of lease and file, or what ``-`` reads from stdin; each with its source.

    Raises:
        InputError: a file cannot be read, or something is missing.
    """
    if list(words) == ["-"]:
        return [_loaded(draft) for draft in _from_json(sys.stdin.buffer.read())]
    if words and words[0].startswith("{"):
        raise InputError(f"{words[0]!r} is no lease: write SESSION/NODE/N, which `claim --json` has as .lease.lease")
    if len(words) % 2:
        raise InputError(
            f"{words[-1]!r} stands alone: write LEASE FILE pairs, neither of them empty, or `-` for JSON on stdin"
        )
    pairs = zip(words[::2], words[1::2], strict=True)
    return [_loaded(Draft(lease=lease, file=file)) for lease, file in pairs]


def _from_json(text: bytes) -> list[Draft]:
    try:
        read = msgspec.json.decode(text, type=Draft | list[Draft])
    except msgspec.DecodeError as error:
        raise InputError(
            f'stdin is not what is wanted ({error}): write {{"lease": …, "source": … or "file": …}}, or a list of these'
        ) from error
    return read if isinstance(read, list) else [read]


def _loaded(draft: Draft) -> Draft:
    if draft.source:
        return draft
    if not draft.file:
        raise InputError(f"lease {draft.lease} comes without a candidate: give its source or its file")
    return msgspec.structs.replace(draft, source=load_candidate(Path(draft.file)))
