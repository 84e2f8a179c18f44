"""What every command prints through: colours only on a terminal, results on stdout, everything else on stderr."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from typing import Any, TextIO, TypeVar

import structlog
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from ...schemas import KernelswarmError, encode
from .stacked import fits, stacked

T = TypeVar("T")

WIDE = 4096
"""Columns to lay out for where nobody looks at a screen: what a program reads is never cut."""


TRACEBACK_CHARACTERS = 4000
"""Of a traceback that is logged."""


class _Results(Console):
    """Goes quiet when whoever read the results has left (``| head``): the command's own exit status stands."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _reader_left()


out = _Results(soft_wrap=True, highlight=False, emoji=False)
"""Results for people."""

err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
"""Progress, notices and errors."""


def print_json(value: Any) -> None:
    """Print ``value`` as one line of JSON, exactly."""
    write(encode(value).decode() + "\n")


def print_value(value: T, as_text: Callable[[T], object], *, json: bool) -> None:
    """Print ``value`` for programs, or ``as_text`` for people."""
    if json:
        print_json(value)
    else:
        as_text(value)


def plain_table(
    *columns: str,
    numbers: Iterable[str] = (),
    no_wrap: bool = False,
    never_wrapped: Collection[str] = (),
    header: str = "bold",
) -> Table:
    """A table without lines: ``columns``, then those of ``numbers``, which stand at the right."""
    table = Table(box=None, pad_edge=False, header_style=header)
    for column in columns:
        table.add_column(column, no_wrap=no_wrap or column in never_wrapped)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=no_wrap)
    return table


def print_wide(dashboard: Table | Tree) -> None:
    """Print a table or a tree, as wide as the terminal, or as it wants to be where there is none. A table that the
    terminal has no room for becomes a paragraph for each row."""
    console = out if out.is_terminal else _Results(width=WIDE, highlight=False, emoji=False)
    if isinstance(dashboard, Table) and dashboard.columns and not fits(dashboard, console):
        console.print(stacked(dashboard, console.width), soft_wrap=False)
    else:
        console.print(dashboard, soft_wrap=False)


def write(text: str) -> None:
    """Print ``text`` exactly as it is.

    Raises:
        KernelswarmError: stdout cannot take it (a full disk).
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _reader_left()
    except OSError as error:
        _reader_left()
        raise KernelswarmError(f"cannot write the result to stdout: {error.strerror}") from error


def _reader_left() -> None:
    """What is still buffered goes nowhere, silently."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_screen() -> bool:
    """Whether stderr is a screen on which a live display can be redrawn."""
    return sys.stderr.isatty() and err.is_terminal and not err.is_dumb_terminal


def is_one_stream() -> bool:
    """Whether stdout and stderr are read as one text: a terminal, or a file or pipe by ``2>&1``."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def configure_logging(verbosity: int) -> None:
    """Send structlog to stderr: warnings by default, more with ``-v`` and ``-vv``."""
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    logging.basicConfig(handlers=[_ToStderr()], level=max(level, logging.WARNING), format="%(name)s: %(message)s")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            _cut_traceback,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and not err.no_color,
                # Without the variables of every frame: pages of them, keys perhaps among them.
                exception_formatter=_end_of_traceback,
            ),
        ],
        # Looked up for every line: a live display puts itself in stderr's place.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _end_of_traceback(out: TextIO, error: structlog.typing.ExcInfo) -> None:
    """The end of it, where the error stands: a recursion that goes too deep has megabytes of frames."""
    out.write("\n" + _end("".join(traceback.format_exception(*error))))


def _cut_traceback(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The same for one that comes as text."""
    return {**event, "exception": _end(event["exception"])} if "exception" in event else event


def _end(text: str) -> str:
    cut = "" if len(text) <= TRACEBACK_CHARACTERS else "…"
    return cut + text[-TRACEBACK_CHARACTERS:]


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(self.format(record), markup=False)
