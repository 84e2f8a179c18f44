"""The environment of ordinary processes: the user's, without anything that may be a secret."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from ..harness.launcher import KEPT_ENVIRONMENT

PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "TORCH", "PYTORCH_", "ATEN_", "AOTI_",
    "MALLOC_", "TCMALLOC_", "JEMALLOC_", "LC_", "NUMEXPR_", "PYTHON", "CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_", "TRITON_",
)  # fmt: skip
"""Beginnings of the variables that decide how Python, PyTorch and their libraries compute."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def ordinary_environment(
    environment: Mapping[str, str] = os.environ, *, threads: int | None = None, accelerator: str = ""
) -> dict[str, str]:
    """What all ordinary processes see.

    Args:
        environment: The user's.
        threads: As many as the pool says, if it says so.
        accelerator: Uuid of the only one that they see; empty for a processor.
    """
    inherited = {name: value for name, value in environment.items() if _is_kept(name)}
    counts = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    # Empty is as if it were not set: numpy has as many threads as in any program. Our other fork servers say 1.
    counts["OPENBLAS_NUM_THREADS"] = ""
    device = {"CUDA_VISIBLE_DEVICES": accelerator} if accelerator else {}
    # What is installed beside this Python, ninja for one, is found as in a virtual environment that is active.
    path = os.pathsep.join([inherited.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return {**counts, **inherited, **device, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def own_environment(scratch: Path, artifacts: Path, *, on_accelerator: bool) -> dict[str, str]:
    """What one of them sees beside that.

    The folder of compiled artifacts is the one thing of ours: a finished file looks there before it compiles.

    Args:
        scratch: The one folder that it may write. What an accelerator runs is kept there as well, since the user's own
            folder cannot be written.
        artifacts: Folder of compiled artifacts.
        on_accelerator: Whether it computes on one.
    """
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "KERNELSWARM_ARTIFACTS": str(artifacts)}
    caches = {"TRITON_CACHE_DIR": str(kernels_of(scratch)), "CUDA_CACHE_PATH": str(scratch)}
    return own | (caches if on_accelerator else {})


def kernels_of(folder: Path) -> Path:
    """Where Triton keeps what it compiles, and finds what was compiled ahead: of a process by its scratch, of ours by
    the home."""
    return folder / "triton"


def compiling(home: Path) -> dict[str, str]:
    """What a process that compiles baselines gets beside it: where what was compiled is kept, and no helpers."""
    return {
        "TRITON_CACHE_DIR": str(kernels_of(home)),
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }


def _is_kept(name: str) -> bool:
    return (name in KEPT_ENVIRONMENT or name.startswith(PREFIXES)) and not SECRET.search(name)
