"""A copy of the log to keep."""

import contextlib
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import InputError
from .snapshot import Copied, copy_log

if TYPE_CHECKING:
    from ..bus import Bus


async def backup_log(home: Path, out: Path, *, bus: "Bus | None" = None) -> Copied:
    """Write a consistent copy of the log of ``home`` to the file ``out``, also while it is being recorded.

    Raises:
        InputError: ``out`` is there already, or cannot be written. Nothing was changed.
        StoreError: as :func:`copy_log`, or the disk is full. Nothing was changed.
    """
    out, partial = _places(out)
    try:
        copied = await copy_log(home, partial, bus=bus)
        _publish(partial, out)
        return Copied(path=str(out), events=copied.events, head=copied.head)
    finally:
        for path in (partial, partial.with_name(partial.name + ".wal")):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _places(out: Path) -> tuple[Path, Path]:
    out = out.absolute()
    if out.is_dir():
        raise InputError(f"{out} is a folder: name the file that the copy becomes")
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} is there already: name a file that is not there yet, or move it away")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent}: make it, or name another file")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot write in {out.parent}: name a file in another folder")
    return out, out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.partial")


def _publish(partial: Path, out: Path) -> None:
    try:
        os.link(partial, out)  # unlike a rename it takes nobody's place
    except FileExistsError as error:
        raise InputError(f"{out} is there already: name a file that is not there yet") from error
    except OSError:
        partial.rename(out)  # a file system without links
