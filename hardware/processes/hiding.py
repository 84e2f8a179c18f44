"""Hides what this machine keeps of others from an untrusted candidate: the seeds of their cases are in the log.

Who knows them knows the inputs ahead, and needs to compute nothing when it is called.
"""

import os
import sys
from pathlib import Path

from . import linux

SHOWN = ("artifacts", "harness", "inductor", "triton")
"""What children need of the home folder: compiled candidates and caches."""

_BYTES = 1 << 20


def hide_records(scratch: str) -> None:
    """Cover the home folder, in this mount namespace, but for what children need of it; before ``scratch`` is mounted.

    Raises:
        OSError: the kernel refuses.
    """
    artifacts = os.environ.get("KERNELSWARM_ARTIFACTS", "")
    if not artifacts:
        return
    home = Path(artifacts).parent
    descriptors = {name: os.open(home / name, os.O_PATH) for name in sorted(_shown(home, scratch))}
    linux.mount_memory(str(home), _BYTES)
    for name, opened in descriptors.items():
        Path(home, name).mkdir()
        linux.mount_again(f"/proc/self/fd/{opened}", str(home / name))
        os.close(opened)


def _shown(home: Path, scratch: str) -> set[str]:
    """Folders in ``home`` that stay: those named above, and whatever Python imports from, should it lie there."""
    needed = [Path(path).resolve() for path in (*sys.path, sys.prefix, sys.base_prefix, scratch) if path]
    root = home.resolve()
    inside = {path.relative_to(root).parts[0] for path in needed if path != root and path.is_relative_to(root)}
    return {name for name in (*SHOWN, *inside) if (home / name).is_dir()}
