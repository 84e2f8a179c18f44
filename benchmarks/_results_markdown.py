"""What the sections of docs/results.md share: result files, Markdown tables, numbers, the line that names a run."""

import csv
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH = 100
"""Longest line of prose."""

Record = Mapping[str, Any]
"""A JSON object of a result file."""


def load_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON result file."""
    record: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return record


def load_csv(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a CSV result file."""
    with (folder / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def run_line(record: Record, file: str, device: str = "") -> str:
    """Date, commit, machine and library versions of a run, and the file that holds it."""
    machine, versions = record["machine"], record["versions"]
    day = str(record.get("date") or record["at"])[:10]
    hosts = f"{machine['cores']} cores of {machine['processor']}"
    hardware = f"{device}, {hosts}" if device else hosts
    libraries = f"torch {versions['torch']}" + (f", triton {versions['triton']}" if device else "")
    return f"Run: {day}, commit {versions['commit']}, {hardware}, {libraries}; file `{file}`."


def ratio(value: float) -> str:
    """A speedup: three digits."""
    return f"{value:.1f}x" if value >= 9.995 else f"{value:.2f}x"


def interval(low: float, high: float) -> str:
    """A 95 % interval of a speedup."""
    return f"{low:.2f} to {high:.2f}"


def rounded(value: float) -> str:
    """A rate per second: to the hundred, below a thousand to the ten."""
    return f"{round(value, -2 if value >= 1000 else -1):,.0f}"


def bullets(*items: str) -> str:
    """A Markdown list."""
    return "\n".join(f"- {item}" for item in items)


def section(title: str, *parts: str) -> str:
    """A heading and its paragraphs, lists and tables."""
    return "\n\n".join((f"## {title}", *(_wrapped(part.strip()) for part in parts)))


def _wrapped(part: str) -> str:
    if part.startswith(("|", "#")):
        return part
    items = part.removeprefix("- ").split("\n- ")
    first, rest = ("- ", "  ") if part.startswith("- ") else ("", "")
    return "\n".join(_filled(item, first, rest) for item in items)


def _filled(text: str, first: str, rest: str) -> str:
    words = " ".join(text.split())
    return textwrap.fill(
        words, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
