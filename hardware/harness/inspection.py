"""Profiles a correct candidate on its accelerator: passes it, with its inputs, to the profilers."""

import os
from pathlib import Path

from ...schemas import Accelerator, CompileReport, DeviceProfile, Pool, Problem
from ..machine.lease import Lease
from ..profilers.accelerator import Profilers
from ..profilers.messages import Inspect
from ..profilers.standby import Setting
from .reference_process import ReferenceProcess

PROGRAM = f"{__package__}.children.profiled_calls"
LONGEST_SECONDS = 60.0
"""Limit for loading, and for measuring, whatever a candidate may take when it is judged."""
_NVIDIA = Pool(name="nvidia", platform="nvidia", languages=("cuda",))
"""All pools of the platform share a device's counters."""
KEPT_ENVIRONMENT = ("CUDA_HOME", "TRITON_LIBCUDA_PATH", "CC")
"""What tells where CUDA lies; no key, no token."""


def profilers_for(accelerator: Accelerator, home: Path) -> Profilers:
    """The profilers of one accelerator of this machine."""
    inherited = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    environment = {**inherited, "CUDA_VISIBLE_DEVICES": accelerator.uuid, "PYTHONDONTWRITEBYTECODE": "1"}
    setting = Setting(PROGRAM, environment, target=accelerator.target, cache=str(home / "triton"))
    return Profilers(setting, Lease(_NVIDIA, home, f"{accelerator.uuid}.counters"))


async def inspect(
    profilers: Profilers,
    cases: ReferenceProcess,
    lease: Lease,
    problem: Problem,
    source: str,
    compiled: CompileReport,
    artifacts: Path,
    *,
    seconds: float,
) -> DeviceProfile | None:
    """Profile a candidate at the timed shape, on the inputs that it was timed on. None if nothing is permitted here.

    Raises:
        HarnessError: the reference cannot draw the inputs any more.
    """
    timed = await cases.timed().cases()
    request = Inspect(
        source=source,
        format=problem.format,
        inputs=tuple(case.inputs for case in timed),
        backward=cases.backward,
        setup=cases.setup,
        artifacts=str(artifacts),
        ahead=compiled.names(".triton"),
        built=compiled.names(".build"),
        programs=compiled.is_late,
        seconds=min(seconds, LONGEST_SECONDS),
    )
    files = [case.file for case in timed] + ([] if cases.setup_file is None else [cases.setup_file])
    return await profilers.profile(request, files, lease)
