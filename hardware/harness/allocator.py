"""The allocator of the processes that are timed: what they free stays with them (docs/decisions/0008)."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...schemas import Pool, PoolError, sha256
from ..machine.compilers import find_compiler

SOURCE = Path(__file__).with_name("keep.cpp")
FLAGS = ("-O2", "-std=gnu++17", "-fPIC", "-shared", "-Wall", "-Wextra")
SECONDS = 60.0
OWN_CHOICE = ("LD_PRELOAD", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""Whoever sets one of these has chosen how memory is handed out, and gets that."""

_log = logging.getLogger("kernelswarm.harness")


def allocator(pool: Pool, home: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What to add to the environment of the processes that are timed; built once for a home folder.

    Without a compiler the C library's allocator stays: timings of large tensors are then mostly page faults.
    """
    if sys.platform != "linux" or any(environment.get(name) for name in OWN_CHOICE):
        return {}
    try:
        library = _built(pool, home / "harness")
    except (PoolError, OSError, subprocess.SubprocessError) as error:
        _log.warning("freed memory is not kept between timed calls: %s", error)
        return {}
    return {"LD_PRELOAD": str(library)}


def _built(pool: Pool, folder: Path) -> Path:
    compiler = find_compiler(pool)
    name = sha256("\0".join([str(compiler), *FLAGS, SOURCE.read_text()]).encode())[:16]
    library = folder / f"keep-{name}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output = Path(scratch, library.name)
        command = [compiler.path, *FLAGS, str(SOURCE), "-o", str(output), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise PoolError(f"{compiler} cannot build {SOURCE.name}: {(done.stderr.splitlines() or ['no output'])[0]}")
        output.replace(library)
    return library
