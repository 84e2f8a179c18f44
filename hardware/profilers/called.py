"""Calls a candidate on the GPU under a profiler. A program of its own: profilers want to start what they look into.

Usage: ``python -m kernelswarm.hardware.profilers.called FOLDER MODE`` with, in FOLDER, ``candidate.py``, ``request.pt``
(``torch.save`` of a dictionary with ``inputs`` and, for a ``ModelNew``, ``arguments`` and ``parameters``) and, where
there is one, ``kernels.triton``. MODE is ``plain`` (for Nsight Compute, which wraps this program), ``trace``
(torch.profiler) or ``proton``; what they saw is left in ``profile.out``. It shuts itself off before it imports the
candidate, and after CUDA and the profiler are up: those need files and sockets.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..languages._shut_off import shut_off
from ..languages._triton_runtime import unpack, use

WARM = 3
CALLS = 5
"""Calls that a trace covers; Nsight Compute replays each kernel of one call."""
_DEVICE = "cuda"


def main(folder: Path, mode: str) -> None:
    """Warm the candidate up, then call it in view of the profiler."""
    import torch

    torch.set_grad_enabled(False)
    torch.cuda.init()
    torch.zeros(1, device=_DEVICE)
    source = (folder / "candidate.py").read_text(encoding="utf-8")
    request = torch.load(folder / "request.pt", weights_only=False, map_location=_DEVICE)
    scratch = folder / "scratch"
    scratch.mkdir()
    with (folder / "profile.out").open("wb") as output:
        archive = (folder / "kernels.triton").resolve()
        shut_off(scratch)
        os.chdir(scratch)
        if archive.exists():
            unpack(archive, scratch / "cache")
        use(scratch / "cache")
        call = _loaded(source, request, scratch)
        for _ in range(WARM):
            call()
        torch.cuda.synchronize()
        output.write(_MODES[mode](call))


def _loaded(source: str, request: dict[str, Any], scratch: Path) -> Callable[[], object]:
    path = scratch / "candidate.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    function = getattr(module, "kernel", None)
    if "parameters" in request:
        function = module.ModelNew(*request["arguments"]).to(_DEVICE)
        function.load_state_dict(request["parameters"])
    assert function is not None
    inputs = request["inputs"]
    return lambda: function(*inputs)


def _plain(call: Callable[[], object]) -> bytes:
    """One call between the marks that ``ncu --profile-from-start off`` looks for."""
    import torch

    torch.cuda.profiler.start()
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return b""


def _trace(call: Callable[[], object]) -> bytes:
    import torch
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    profiler.export_chrome_trace("trace.json")
    return Path("trace.json").read_bytes()


def _proton(call: Callable[[], object]) -> bytes:
    """Needs kernels with scopes of ``triton.profiler.language`` in them; they are compiled anew with the scopes on."""
    import torch
    import triton.profiler as proton

    proton.start("proton", backend="instrumentation")
    call()
    torch.cuda.synchronize()
    proton.finalize()
    return Path("proton.hatchet").read_bytes()


_MODES: dict[str, Callable[[Callable[[], object]], bytes]] = {"plain": _plain, "trace": _trace, "proton": _proton}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
