"""What an exported folder says of itself: ``manifest.json``."""

import re
from collections.abc import Mapping

from ...schemas import Problem, Schema
from .scrub import Scrubber

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
"""Of the folder's layout and row schemas. A reader refuses a newer one."""

_SPDX = re.compile(r"SPDX-License-Identifier:\s*([A-Za-z0-9.+() -]+)")


class FileEntry(Schema, frozen=True, kw_only=True):
    """One file of the folder."""

    name: str
    rows: int
    """Lines of a JSONL file, rows of a Parquet file."""
    bytes: int
    sha256: str
    """Of the file as it lies there, hex."""


class ProblemEntry(Schema, frozen=True, kw_only=True):
    """A problem whose source is in the data."""

    name: str
    sha256: str
    """Of the source before anything was redacted, hex."""
    licence: str
    """Its SPDX identifier, where the source names one; else ``unknown``."""


class LogEntry(Schema, frozen=True, kw_only=True):
    """The log the data was taken from, at that moment."""

    id: str
    events: int
    """How many events it held."""
    head: str
    """Hash of the last one: it commits to all of them."""


class Manifest(Schema, frozen=True, kw_only=True):
    """What was exported, from what, and what was left out or taken out."""

    manifest_version: int = MANIFEST_VERSION
    format: str
    """``sft``, ``dpo``, ``grpo``, ``events`` or ``parquet``."""
    kernelswarm: str
    """Version that wrote it."""
    log: LogEntry
    where: str = ""
    """Condition on the rows of :attr:`where_view`; empty: all."""
    where_view: str
    sessions: int
    """Sessions that gave at least one row."""
    rows: int
    """In all files together."""
    files: tuple[FileEntry, ...]
    skipped: Mapping[str, int] = {}
    """What gave no row, by reason."""
    redactions: Mapping[str, int] = {}
    """What was taken out, by kind."""
    redacted_events: int = 0
    """Of ``events``: lines that are not what was on the wire because something was taken out."""
    problems: tuple[ProblemEntry, ...] = ()


def problem_entry(problem: Problem, scrubber: Scrubber) -> ProblemEntry:
    """What the manifest says of a problem."""
    match = _SPDX.search(problem.source)
    licence = scrubber.text(match[1].strip()) if match else "unknown"
    return ProblemEntry(name=scrubber.text(problem.name), sha256=problem.sha256, licence=licence)
