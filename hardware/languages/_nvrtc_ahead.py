"""Compiles a candidate's CUDA C++ in a process of its own: NVRTC runs in the process that calls it, crashes included.

Usage: ``python -m kernelswarm.hardware.languages._nvrtc_ahead FOLDER`` with ``request.json`` in FOLDER; leaves
``result.json``, ``kernel.cubin`` and ``kernel.ptx`` there.
"""

import os
import sys
from pathlib import Path
from typing import Any

from ...schemas import KernelResources, PoolError, decode, encode
from ._cubin import find_tool, resources
from ._cuda_loader import NVRTC
from ._cuda_request import Request, Result
from ._shut_off import shut_off


def main(folder: Path) -> None:
    """Compile the request in ``folder``."""
    request = decode((folder / "request.json").read_bytes(), Request)
    scratch = folder / "scratch"
    scratch.mkdir()
    # Opened before the files become read-only: what is open stays writable.
    names = ("result.json", "kernel.cubin", "kernel.ptx")
    result, cubin, ptx = ((folder / name).open("wb") for name in names)
    with result, cubin, ptx:
        isolation = shut_off(scratch)
        os.chdir(scratch)
        loader: dict[str, Any] = {}
        exec(NVRTC, loader)
        try:
            code, text, log = loader["_nvrtc_compile"](request.source, list(request.flags), request.target)
        except RuntimeError as error:
            result.write(encode(Result(missing=str(error), isolation=isolation)))
            return
        cubin.write(code)
        ptx.write(text)
        kernels, why_not = _resources(code, scratch) if code else ((), "")
        result.write(encode(Result(ok=bool(code), log=log, kernels=kernels, unmeasured=why_not, isolation=isolation)))


def _resources(code: bytes, scratch: Path) -> tuple[tuple[KernelResources, ...], str]:
    binary = scratch / "kernel.cubin"
    binary.write_bytes(code)
    try:
        kernels = resources(binary, find_tool("cuobjdump"))
    except PoolError as error:
        return (), str(error)
    return tuple(
        KernelResources(
            name=name, registers=used.registers, spill_bytes=used.spill_bytes, shared_bytes=used.shared_bytes
        )
        for name, used in kernels.items()
    ), ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
