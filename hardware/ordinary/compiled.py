"""What was compiled of a finished file, as its ordinary processes are told of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..languages import _triton_runtime, program_runs, triton
from .environment import kernels_of

PLAYER = Path(program_runs.__file__).read_text(encoding="utf-8")
"""What plays back a file's compilers; the process has nothing of the package."""
UNPACKER = Path(_triton_runtime.__file__).read_text(encoding="utf-8")
"""What puts compiled kernels where Triton looks for them."""


def told_of(artifacts: Sequence[Path], home: Path) -> dict[str, Any]:
    """What a process is told of what was compiled of its file."""
    built, kernels = (
        [str(path) for path in artifacts if path.suffix == suffix] for suffix in (program_runs.SUFFIX, triton.SUFFIX)
    )
    command: dict[str, Any] = {"built": built, "player": PLAYER} if built else {}
    return command | ({"kernels": kernels, "unpacker": UNPACKER, "driver": str(kernels_of(home))} if kernels else {})
