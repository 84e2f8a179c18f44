"""The command loop of every child: reads a command, runs it, answers; an exception becomes a :class:`Failure`."""

import re
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...processes import wire
from ...processes.messages import Failure
from ...sources.neighbours import PREFIX
from ..messages.commands import Answer, Command

T = TypeVar("T")

Handler = Callable[[Any, list[int]], "Answer | tuple[Answer, Sequence[int]]"]
"""Gets the command and its descriptors; returns the answer, perhaps with descriptors, which are closed once sent."""

Handlers = dict[Any, Handler]
"""By the class of the command."""

LOG_CHARACTERS = 6000
user_files: set[str] = set()
"""Paths of the files of users that this process has imported."""
_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|bad_alloc|Cannot allocate memory|Unable to allocate|out of memory", re.I
)
_CUDA = re.compile(r"\bcuda\b|nvidia|\bhip\b", re.I)


class Refused(Exception):
    """User code cannot be used; the message is the sentence for its author."""

    def __init__(self, message: str, *, kind: str = "problem", log: str = "", needed_bytes: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.log = log
        self.needed_bytes = needed_bytes


def attempt(call: Callable[[], T], kind: str = "raised") -> T:
    """Call user code.

    Raises:
        Refused: it raised, whatever it was, ``SystemExit`` included. Its kind is ``kind``, or ``memory`` or
            ``cuda`` where that is why.
    """
    try:
        return call()
    except Refused:
        raise
    except BaseException as error:  # noqa: BLE001 - the border to user code, where everything becomes data
        message = f"{describe(error)}{_source_line(error)}"
        raise Refused(message, kind=_kind(error, kind), log=_trace(error)) from None


def serve_commands(channel: socket.socket, handlers: Handlers) -> None:
    """Answer commands until the supervisor lets go.

    Raises:
        EOFError: it did.
    """
    while True:
        command: Command
        command, descriptors = wire.receive(channel, Command)
        answer, attached = _answer(handlers[type(command)], command, descriptors)
        wire.send(channel, answer, attached)
        wire.close_all(attached)


def _answer(handler: Handler, command: Any, descriptors: list[int]) -> tuple[Answer, Sequence[int]]:
    try:
        answer = handler(command, descriptors)
        return answer if isinstance(answer, tuple) else (answer, ())
    except Refused as refused:
        failure = Failure(kind=refused.kind, message=str(refused), log=refused.log, needed_bytes=refused.needed_bytes)
        return failure, ()
    except MemoryError as error:
        return Failure(kind="memory", message=describe(error), log=_trace(error)), ()
    except RuntimeError as error:
        return Failure(kind=_kind(error, "harness"), message=describe(error), log=_trace(error)), ()
    finally:
        wire.close_all(descriptors)


def describe(error: BaseException) -> str:
    """The error in one line."""
    text = _printable(_text(error)).strip().splitlines()
    name = _printable(type(error).__name__)
    # An error that another one wraps may have no text of its own.
    first = text[0].rstrip(" :") if text else ""
    return f"{name}: {first}"[:500] if first else name


def _source_line(error: BaseException) -> str:
    """The innermost line of the user's file, where it went through one; with the name of a neighbour, where in one."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    source_lines = [(file, line) for file, line in frames if file in user_files or file.startswith(PREFIX)]
    if not source_lines:
        return ""
    file, line = source_lines[-1]
    return f" (line {line})" if file in user_files else f" ({file.partition('/')[2]}, line {line})"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the error's own code, which is user code too
        return "(its text cannot be made)"


def _printable(text: str) -> str:
    """``text`` without what UTF-8 cannot carry."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _kind(error: BaseException, otherwise: str) -> str:
    if isinstance(error, MemoryError) or _MEMORY.search(_text(error)):
        return "memory"
    if isinstance(error, RuntimeError | AssertionError) and _CUDA.search(_text(error)):
        return "cuda"
    return otherwise


def _trace(error: BaseException) -> str:
    return _printable("".join(traceback.format_exception(error))[-LOG_CHARACTERS:])
