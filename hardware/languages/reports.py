"""What all languages report alike: how a compiler ended, what it printed, and why where it gave no reason."""

import hashlib
import json
from typing import Any

from ...schemas import CompileReport, Diagnostic, Pool
from ..processes.limited_command import Finished

LOG_CHARACTERS = 8000
"""Of what a compiler printed, the end that its report keeps."""


def key_of(*parts: Any) -> str:
    """Name of an artifact without its suffix: sha256 of the canonical JSON of all that it depends on."""
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def error(message: str) -> Diagnostic:
    """An error without a place in the file."""
    return Diagnostic(severity="error", message=message)


def has_errors(diagnostics: tuple[Diagnostic, ...]) -> bool:
    """Whether one of them is an error."""
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)


def report_of(finished: Finished, *, log: str = "", **fields: Any) -> CompileReport:
    """The report on a compiler that has ended; ``log`` takes the place of what it printed."""
    return CompileReport(
        **{"seconds": finished.seconds, "isolation": finished.isolation, **fields},
        log=(log or finished.output)[-LOG_CHARACTERS:],
    )


def unexplained(finished: Finished, pool: Pool, tool: str = "the compiler") -> Diagnostic:
    """Why ``tool`` failed without an error of its own."""
    if finished.timed_out:
        limit = f"{pool.candidate_seconds:g} s (candidate_seconds of pool {pool.name!r})"
        return error(f"{tool} was stopped after {limit}")
    return error(f"{tool} ended with status {finished.returncode}: {finished.last_line}")
