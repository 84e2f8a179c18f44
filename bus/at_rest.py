"""What the files of an embedded server say while it does not run."""

import mmap
from pathlib import Path

from .subjects import session_filter


def may_hold(home: Path, session: str) -> bool:
    """Whether the stream that lies in ``home`` may hold events of ``session``, which its log has not got yet.

    The server writes an event's subject as it is, so that a session nobody ever spoke of is in none of its files.
    Reads at the speed of the disk.

    Raises:
        InputError: there can be no session of that name.
    """
    subject = session_filter(session).removesuffix(">").encode()
    blocks = (home / "nats" / "store").rglob("*.blk")
    return any(_contains(path, subject) for path in sorted(blocks, reverse=True))


def _contains(path: Path, text: bytes) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as block:
            return block.find(text) >= 0
    except ValueError:  # empty
        return False
    except OSError:  # who cannot look does not say that it is not there
        return True
