"""Files of results: written by one command at a time, whole or not at all."""

import csv
import fcntl
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ...schemas import InputError

T = TypeVar("T")


@contextmanager
def opened_alone(path: Path, table: Callable[[Path], T]) -> Iterator[T]:
    """The results ``table`` at ``path``, which this process alone writes as long as the context is open.

    Raises:
        InputError: it cannot be read or written, or another command writes it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(f".{path.name}.lock").open("a")
    except OSError as error:
        raise cannot_write(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another command is writing {path}: wait for it, or choose another file with --out"
            ) from None
        yield table(path)


def write_whole(path: Path, text: str) -> None:
    """Replace what ``path`` holds; it is on the disk when the call returns.

    Raises:
        InputError: it cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("w", newline="", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Replace what ``path`` holds by a line of ``columns`` and one of cells for each row.

    Raises:
        InputError: it cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def cannot_write(path: Path, error: OSError) -> InputError:
    """What to tell the user."""
    return InputError(f"cannot write {path}: {error.strerror}; choose another file with --out")
