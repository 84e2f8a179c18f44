"""torch.compile as a baseline. Slow (it compiles), hence alone."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import HardwareFacts, Pool, Problem, ProblemFacts

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_compiled_baseline_is_kept(
    device: Device, problem: Problem, facts: ProblemFacts, tmp_path: Path
) -> None:
    pool = Pool(name="cpu", platform="cpu", languages=("cpp",))
    hardware: HardwareFacts = device._hardware
    async with Device(pool, hardware, tmp_path, baselines=("eager", "compile")) as second_device:
        report = await second_device.baselines(problem, facts)
        again = await second_device.baselines(problem, facts)

    assert [(status.name, status.ok) for status in report.statuses] == [("eager", True), ("compile", True)]
    assert set(report.median_ms) == {"eager", "compile"}
    assert report.best == min(report.median_ms, key=lambda name: report.median_ms[name])
    assert again is report
    assert [(status.compiled > 0, status.kept) for status in report.statuses] == [(False, 0), (True, 0)]

    async with Device(pool, hardware, tmp_path, baselines=("eager", "compile")) as third_device:
        kept = (await third_device.baselines(problem, facts)).statuses[1]

    assert kept.ok and kept.compiled == 0 and kept.kept == report.statuses[1].compiled
