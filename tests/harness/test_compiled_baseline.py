"""torch.compile as a baseline. Slow (it compiles), hence alone.

What imports the compiler is imported where it is used: each worker that collects this file would pay two CPU seconds.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

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
        # As on an accelerator, where it is compiled apart and what was begun stands still.
        third_device._lease.drain_s = 0.01
        kept = (await third_device.baselines(problem, facts)).statuses[1]

    assert kept.ok and kept.compiled == 0 and kept.kept == report.statuses[1].compiled


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.relu(x) + self.calls


async def test_a_compiled_graph_is_there_before_its_first_call_and_has_not_run() -> None:
    from torch._dynamo.utils import counters

    from kernelswarm.hardware.harness.children.baseline import until_it_runs

    model, x = Counts(), torch.randn(64)
    call = torch.compile(model, dynamic=False)
    graphs = counters["stats"]
    before = graphs["unique_graphs"]
    with torch.no_grad():
        until_it_runs(call, [x])
        assert model.calls == 0 and graphs["unique_graphs"] == before + 1

        assert torch.equal(call(x), torch.relu(x) + 1)
        assert model.calls == 1 and graphs["unique_graphs"] == before + 1


async def test_what_decides_how_a_graph_is_compiled_does_not_run_either(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.fx_passes import pad_mm

    from kernelswarm.hardware.harness.children.baseline import until_it_runs

    def passes(*arguments: Any, **options: Any) -> Any:
        pad_mm.get_do_bench()
        raise AssertionError("it runs")

    call, x = torch.compile(lambda x: torch.tanh(x) @ x, fullgraph=True), torch.randn(8, 8)
    with monkeypatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx._recursive_joint_graph_passes", passes)
        until_it_runs(call, [x])
    assert torch.allclose(call(x), torch.tanh(x) @ x)
