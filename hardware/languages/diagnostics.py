"""Reads what GCC, clang and their linkers print."""

import re

from ...schemas import Diagnostic

MOST = 40
"""Messages kept: a template error can print thousands."""

_MESSAGE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?:(?P<line>\d+):(?:(?P<column>\d+):)?)? "
    r"(?P<severity>fatal error|error|warning|note|sorry, unimplemented|internal compiler error): (?P<message>.*)$"
)
_UNDEFINED = re.compile(r"(undefined reference to [`'].*'|undefined symbol: .*|cannot find -l.*)$")
_REQUIRED = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+):\s+required ")


def read_diagnostics(output: str, file: str) -> tuple[Diagnostic, ...]:
    """Errors and warnings in a compiler's ``output`` about the source called ``file``, in order, at most ``MOST``.

    A message about another file (a system header) gets the place in ``file`` that led there, when the compiler says so.
    """
    diagnostics: list[Diagnostic] = []
    led_here = (0, 0)
    for line in output.splitlines():
        if (required := _REQUIRED.match(line)) and required["file"] == file:
            led_here = int(required["line"]), int(required["column"])
        elif match := _MESSAGE.match(line):
            led_here = _add(diagnostics, match, file, led_here)
        elif undefined := _UNDEFINED.search(line):
            diagnostics.append(Diagnostic(severity="error", message=undefined.group(1)))
    return tuple(dict.fromkeys(diagnostics))[:MOST]


def _add(diagnostics: list[Diagnostic], match: re.Match[str], file: str, led_here: tuple[int, int]) -> tuple[int, int]:
    """Take in one message; returns the place that a following message of a header would stem from."""
    place = int(match["line"] or 0), int(match["column"] or 0)
    severity, message = match["severity"], match["message"]
    if severity == "note":
        if match["file"] == file and diagnostics and diagnostics[-1].line == 0:
            diagnostics[-1] = Diagnostic(
                severity=diagnostics[-1].severity, message=diagnostics[-1].message, line=place[0], column=place[1]
            )
        return led_here
    if match["file"] != file:
        place = led_here
        if "/" in match["file"]:
            message = f"{message} (in {match['file'].rpartition('/')[2]})"
    severity = "warning" if severity == "warning" else "error"
    diagnostics.append(Diagnostic(severity=severity, message=message, line=place[0], column=place[1]))
    return 0, 0
