"""Triton's cache as an artifact: packed where candidates are compiled, unpacked where they run.

An entry of Triton's cache is a folder with the kernel's files and a *group*, which lists them by absolute path; so a
moved entry would not be found. Packed, a group names its files only. This module needs the standard library alone: the
process that runs a candidate calls :func:`unpack` before it imports it.
"""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

KEPT = frozenset({".cubin", ".ptx", ".json", ".so"})
"""What launching needs, and the PTX; the other stages are a hundred times larger."""
_GROUP = "__grp__"


def pack(cache: Path) -> bytes:
    """Triton's cache folder ``cache`` as a tar file, the same bytes for the same entries."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for path in sorted(cache.glob("*/*")):
            if path.is_file() and path.suffix in KEPT:
                data = _relative(path) if path.name.startswith(_GROUP) else path.read_bytes()
                entry = tarfile.TarInfo(f"{path.parent.name}/{path.name}")
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
    return output.getvalue()


def unpack(archive: Path, cache: Path) -> int:
    """Put what was packed into Triton's cache folder ``cache``; returns the number of kernels.

    Raises:
        OSError: the archive cannot be read, or ``cache`` not be written.
        tarfile.TarError: it is no archive, or a name in it leads out of ``cache``.
    """
    kernels = 0
    cache.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as packed:
        packed.extractall(cache, filter="data")
    # By what lies there: a name in the archive may have led elsewhere.
    for path in cache.glob(f"*/{_GROUP}*"):
        files = {file: str(path.parent / Path(file).name) for file in _child_paths(path)}
        path.write_text(json.dumps({"child_paths": files}))
        kernels += 1
    return kernels


def prepare(cache: Path, target: str) -> None:
    """What a process does once before it forks those that run candidates; it runs nothing of theirs.

    Loads Triton and its driver module (compiled into ``cache`` when it is not there yet, which takes a C compiler and a
    second) and asks ``ptxas`` for its version. Children inherit the answers: they may be forbidden to start programs,
    and need not then. CUDA itself is not initialised.

    Raises:
        ImportError, RuntimeError, AssertionError, OSError: Triton is not installed, or there is no driver or compiler.
    """
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaDriver, library_dirs
    from triton.compiler.compiler import make_backend
    from triton.runtime import driver

    make_backend(GPUTarget("cuda", capability(target), 32)).hash()
    library_dirs()
    driver.set_active(CudaDriver())
    fingerprint_of_triton()


def copy_driver(prepared: Path, cache: Path) -> None:
    """Put the driver module that :func:`prepare` had compiled into ``prepared`` into another ``cache``, if it is there:
    a process that was not forked from there would compile it again."""
    for path in prepared.glob("*/cuda_utils*"):
        (cache / path.parent.name).mkdir(parents=True, exist_ok=True)
        (cache / path.parent.name / path.name).write_bytes(path.read_bytes())


def use(cache: Path) -> None:
    """Have Triton, in this process and its children, look for compiled kernels in ``cache`` and put new ones there."""
    os.environ["TRITON_CACHE_DIR"] = str(cache)


def capability(target: str) -> int:
    """``sm_90`` and ``sm_90a`` as Triton counts: 90.

    Raises:
        ValueError: it is no such name.
    """
    digits = target.removeprefix("sm_").rstrip("af")
    if not (target.startswith("sm_") and digits.isdecimal()):
        raise ValueError(f"{target!r} is no target; write it as sm_90")
    return int(digits)


def fingerprint_of_triton() -> None:
    """Part of every cache key: a hash over all of Triton's files, which is kept in the process."""
    try:
        from triton.runtime.cache import triton_key
    except ImportError:
        from triton.compiler.compiler import triton_key
    triton_key()


def _relative(group: Path) -> bytes:
    paths = {name: name for name in _child_paths(group) if Path(name).suffix in KEPT}
    return json.dumps({"child_paths": paths}, sort_keys=True).encode()


def _child_paths(group: Path) -> dict[str, Any]:
    return dict(json.loads(group.read_text())["child_paths"])
