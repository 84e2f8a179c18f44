"""The folder an export goes to: it is there whole, or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import zstandard

from ...schemas import InputError, StoreError
from .manifest import FileEntry


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``out`` when the body has ended well, and vanishes when it has not.

    What an export to the same place has left that was killed vanishes as well.

    Raises:
        InputError: ``out`` is there and not an empty folder, or cannot be made. Nothing was changed.
        StoreError: the disk is full.
    """
    out = out.absolute()
    _refuse(out)
    new_parents = _make_parents(out)
    partial = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with _locked_partial(partial, out):
            yield partial
            _synced(partial)
            partial.rename(out)  # onto an empty folder at most: the system refuses any other
    except OSError as error:
        raise _explained(out, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if not out.exists():
            for folder in new_parents:
                with contextlib.suppress(OSError):
                    folder.rmdir()


class Lines:
    """A file of lines in ``folder``, zstd-compressed if its name says so, that knows its own hash."""

    def __init__(self, folder: Path, name: str) -> None:
        self.rows = 0
        self._path = folder / name
        self._file: IO[bytes] = self._path.open("wb")
        writer = zstandard.ZstdCompressor(level=6, write_checksum=True).stream_writer(self._file)
        self._sink: IO[bytes] = writer if name.endswith(".zst") else self._file

    def write(self, line: bytes) -> None:
        """Add a line; ``line`` is without its end."""
        self._sink.write(line + b"\n")
        self.rows += 1

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        try:
            self._sink.close()
        finally:
            self._file.close()

    def entry(self) -> FileEntry:
        """What the manifest says of it, once it is closed."""
        return file_entry(self._path, self.rows)


def file_entry(path: Path, rows: int) -> FileEntry:
    """What the manifest says of a file that is written."""
    return FileEntry(name=path.name, rows=rows, bytes=path.stat().st_size, sha256=file_sha256(path))


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse(out: Path) -> None:
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise InputError(f"{out} is not a folder: name one that is not there yet, or an empty one")
        if out.is_dir() and any(out.iterdir()):
            raise InputError(f"{out} is not empty: name a folder that is not there yet, or an empty one")
    except OSError as error:
        raise _explained(out, error) from error


def _make_parents(out: Path) -> list[Path]:
    """Make what is missing above ``out``; the folders that were made, deepest first."""
    missing = [folder for folder in out.parents if not folder.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explained(out, error) from error
    return missing


@contextlib.contextmanager
def _locked_partial(partial: Path, out: Path) -> Iterator[None]:
    """Make ``partial``, locked as long as its process lives: whoever finds such a folder without a lock removes it."""
    with contextlib.ExitStack() as lock:
        with _locked(out.parent):  # between being made and being locked a folder looks like a leftover
            _sweep(out)
            partial.mkdir()
            lock.enter_context(_locked(partial))
        yield


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether the lock on ``folder`` could be had: somebody else has it, or the file system knows none."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _sweep(out: Path) -> None:
    left = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{8}}\.partial")
    for folder in out.parent.iterdir():
        if left.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            with _locked(folder) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)


def _synced(folder: Path) -> None:
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _explained(out: Path, error: OSError) -> InputError | StoreError:
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return StoreError(f"The disk is full: {out} cannot be written. Free some space, or name a folder elsewhere.")
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return InputError(f"{out} is not empty: name a folder that is not there yet, or an empty one")
    return InputError(f"{out} cannot be written ({error.strerror}): name a folder that you can write")
