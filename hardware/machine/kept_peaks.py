"""Measured peaks as they lie under ``home/"pools"``: a file for each machine, measured by one process at a time."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from ...schemas import InputError, Pool, Schema, decode, encode, sha256

Kept = TypeVar("Kept", bound=Schema)


def kept_path(home: Path, pool: Pool, machine: Sequence[str]) -> Path:
    """Where the peaks of ``pool`` are kept on the machine that ``machine`` describes: its hash is in the name."""
    return home / "pools" / f"{pool.name}.{sha256(encode(tuple(machine)))[:12]}.json"


@contextmanager
def measuring(folder: Path) -> Iterator[None]:
    """Measure alone: two measurements at once would each see half of the machine. Makes ``folder``.

    Raises:
        InputError: it cannot be written, or the disk was full while the body ran.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".measuring").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise InputError(
            f"cannot keep measured peaks in {folder}: {error.strerror or error}; free space there or set "
            "KERNELSWARM_HOME to a folder that can be written"
        ) from error


def read_kept(path: Path, kind: type[Kept]) -> Kept | None:
    """What is kept there; None if nothing is, or nothing that this version can read."""
    try:
        return decode(path.read_bytes(), kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_kept(path: Path, record: Schema) -> None:
    """Keep it, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_bytes(msgspec.json.format(encode(record), indent=1))
    beside.replace(path)
