"""A problem that is forgotten leaves no descriptor behind: a process that judges many of them would run out."""

from pathlib import Path

import pytest
from cheats import KERNELS, SUITES

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem

pytestmark = pytest.mark.asyncio(loop_scope="session")

DESCRIPTORS = Path("/proc/self/fd")


def count() -> int:
    return len(list(DESCRIPTORS.iterdir()))


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="this system does not list descriptors there")
async def test_a_problem_that_was_judged_and_forgotten_keeps_none(device: Device, tmp_path: Path) -> None:
    suite = SUITES["small"]
    source = (KERNELS / "cpu" / "honest.py").read_text()
    counts, most = [], 0
    for number in range(3):
        path = tmp_path / f"small{number}.py"
        path.write_text(f"{suite.problem.read_text()}\n# {number}\n")
        problem = load_problem(path)
        facts = await device.validate_problem(problem)
        compiled, _ = await device.compile(source, "cpp")
        await device.verify(problem, source, compiled)
        await device.profile(problem, facts, source, compiled)
        most = max(most, count())
        await device.forget(problem)
        counts.append(count())
    # The first one starts what is kept for all of them.
    assert counts[1] == counts[2] <= counts[0] < most - 20
