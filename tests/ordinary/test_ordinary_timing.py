"""Ordinary processes give a timing like the harness's, and are what they say: ordinary."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.ordinary import Missing, OrdinaryHost, Settings, rounds
from kernelswarm.hardware.ordinary.rounds import Runner
from kernelswarm.hardware.processes.fork_server import FORK_SERVERS
from kernelswarm.schemas import Problem, ProblemFacts

from .conftest import HARDWARE, POOL, RIGHT, Times, problem_from

pytestmark = pytest.mark.asyncio(loop_scope="session")

Facts = Callable[[Problem], Awaitable[ProblemFacts]]

MODULE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.inner = torch.nn.Linear(features, features)
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(self.inner(x))

def get_inputs():
    return [torch.randn(32, 16)]

def get_init_inputs():
    return [16]
"""
NAMED = MODULE.replace("return [16]", 'return {"features": 16}')
BACKWARD = """
import torch

backward = True
shapes = {"main": dict(rows=16, cols=32)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator)]

def reference(x, w):
    return torch.tanh(x) * w
"""
TELLS = """
import json, os, sys
raise RuntimeError(json.dumps({
    "environment": dict(os.environ),
    "ours": [name for name in sys.modules if name.startswith(("kernelswarm", "msgspec"))],
}))
"""


@pytest.fixture(autouse=True)
def _in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """How well it measures is nobody's question here."""
    monkeypatch.setattr(rounds, "LEAST_ROUNDS", 2)
    monkeypatch.setattr(rounds, "SECONDS", 0.05)


@pytest.mark.thorough
async def test_every_process_gives_samples_of_every_baseline(home: Path, host: OrdinaryHost) -> None:
    settings = Settings(POOL, HARDWARE, home, ("eager", "compile"))
    both = OrdinaryHost(settings, host.problem, host._facts)
    try:
        timing = await both.time(RIGHT, Lease(POOL, home), effort=Effort(processes=2))
    finally:
        await both.close()
    assert [series.name for series in timing.series] == ["eager", "compile", "candidate"]
    assert len(timing.rounds) == 2 and {len(series.samples_ns) for series in timing.series} == {sum(timing.rounds)}
    assert set(timing.speedup) == {"eager", "compile"} and timing.best in timing.speedup
    assert all(ms > 0 for ms in timing.median_ms.values())


async def test_baselines_are_started_once(host: OrdinaryHost, times: Times) -> None:
    await times(RIGHT)
    first = [runner.process.pid for runner in host._baselines]
    await times(RIGHT)
    assert [runner.process.pid for runner in host._baselines] == first != [0]


async def test_a_baseline_that_the_judge_still_compiles_is_not_compiled_here(
    home: Path, host: OrdinaryHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = OrdinaryHost._loaded

    async def loaded(self: OrdinaryHost, name: str, *arguments: Any) -> Any:
        # The late one stands for a baseline that takes minutes.
        return replace(await load(self, "eager" if name == "late" else name, *arguments), name=name)

    monkeypatch.setattr(OrdinaryHost, "_loaded", loaded)
    lease = Lease(POOL, home)
    both = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager", "late")), host.problem, host._facts)
    names: list[set[str]] = []
    try:
        await both.get_ready(lease, ("late",))
        ready = [*(runner.process for runner in both._baselines), *both._waiting.values()]
        for absent in (("late",), ()):
            timing = await both.time(RIGHT, lease, effort=Effort(processes=1), absent=absent)
            names.append(set(timing.speedup))
        # Both were started once: the late one had its imports behind it.
        assert [runner.process for runner in both._baselines] == ready and len(ready) == 2 and not both._waiting
    finally:
        await both.close()
    assert not any(process.alive for process in ready)
    assert names == [{"eager"}, {"eager", "late"}]


async def test_a_baseline_that_died_is_started_again(host: OrdinaryHost, times: Times) -> None:
    await times(RIGHT)
    await host._baselines[0].process.close()
    assert (await times(RIGHT)).speedup.keys() == {"eager"}


async def test_a_fork_server_that_dies_costs_no_candidate_its_timing(
    host: OrdinaryHost, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    await times(RIGHT)
    compare = OrdinaryHost._compare
    killed: list[int] = []

    async def compared(self: OrdinaryHost, candidates: Sequence[Runner], lease: Lease) -> None:
        if len(killed) < deaths:
            server = FORK_SERVERS.living(self._used_program())
            assert server is not None
            os.kill(server.pid, signal.SIGKILL)
            killed.append(server.pid)
        await compare(self, candidates, lease)

    monkeypatch.setattr(OrdinaryHost, "_compare", compared)
    deaths = 1
    assert (await times(RIGHT)).speedup.keys() == {"eager"} and len(killed) == 1
    # Whoever can have it die again and again is timed no more.
    killed, deaths = [], 2
    with pytest.raises(Missing, match="killed by SIGKILL"):
        await times(RIGHT)
    assert (await times(RIGHT)).speedup.keys() == {"eager"}


@pytest.mark.parametrize(
    ("source", "candidate"),
    [
        (MODULE, MODULE.replace("class Model(", "class ModelNew(")),
        (NAMED, NAMED.replace("class Model(", "class ModelNew(")),
        pytest.param(
            BACKWARD,
            BACKWARD.replace("backward = True", "").replace("def reference", "def kernel"),
            marks=pytest.mark.thorough,
        ),
        (
            BACKWARD,
            "import torch\ndef kernel(x, w): return torch.tanh(x) * w\n"
            "def backward(x, w, c): t = torch.tanh(x); return c * w * (1 - t * t), (c * t).sum(0)",
        ),
    ],
)
async def test_modules_with_state_and_backward_passes_are_timed(
    source: str, candidate: str, home: Path, tmp_path: Path, facts_of: Facts
) -> None:
    problem = problem_from(tmp_path, source, "problem")
    host = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",)), problem, await facts_of(problem))
    try:
        timing = await host.time(candidate, Lease(POOL, home), effort=Effort(processes=1))
    finally:
        await host.close()
    assert timing.median_ms.keys() == {"eager", "candidate"}


async def test_the_environment_is_the_users_without_secrets_and_ours(
    host: OrdinaryHost, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "OMP_SCHEDULE": "static",
        "ANTHROPIC_API_KEY": "private",
        "TORCH_TOKEN": "private",
        "KERNELSWARM_NATS": "nats://user:private@host",
    }.items():
        monkeypatch.setenv(name, value)
    ours = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "LD_PRELOAD", "MALLOC_MMAP_MAX_"}
    for name in ours:
        monkeypatch.delenv(name, raising=False)
    here = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",)), host.problem, host._facts)
    with pytest.raises(Missing) as missing:
        await here.time(TELLS, Lease(POOL, home), effort=Effort(processes=1))
    await here.close()
    text = str(missing.value)
    seen = json.loads(text.partition("RuntimeError: ")[2])
    assert seen["ours"] == []
    assert seen["environment"]["OMP_SCHEDULE"] == "static" and "private" not in text
    assert not ours & set(seen["environment"])
    assert [name for name in seen["environment"] if name.startswith("KERNELSWARM")] == ["KERNELSWARM_ARTIFACTS"]


async def test_the_devices_ordinary_processes_end_with_what_it_forgets(tmp_path: Path, host: OrdinaryHost) -> None:
    async with Device(POOL, HARDWARE, tmp_path, baselines=("eager",)) as device:
        text = finish(host.problem, host._facts, RIGHT)
        timing, missing = await device.ordinary(host.problem, host._facts, text)
        assert timing is not None and missing == "" and len(timing.rounds) == 3
        (hosts,) = device._finished.hosts.values()
        processes = [runner.process for runner in hosts._hosts[0]._baselines]
        assert [process.alive for process in processes] == [True]
        await device.forget(host.problem)
        assert [process.alive for process in processes] == [False]


async def test_a_timing_that_is_cancelled_leaves_no_process(host: OrdinaryHost, times: Times) -> None:
    await times(RIGHT)
    processes = [runner.process for runner in host._baselines]
    timing = asyncio.ensure_future(times(RIGHT))
    await asyncio.sleep(0)
    timing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await timing
    assert host._baselines == [] and not any(process.alive for process in processes)
    assert (await times(RIGHT)).median_ms.keys() == {"eager", "candidate"}


async def test_numpy_has_its_pool_of_threads_as_in_any_program(times: Times) -> None:
    timing = await times(
        "import numpy, torch\n\n"
        "large = numpy.ones((512, 512), dtype=numpy.float32)\n"
        "assert (large @ large)[0, 0] == 512\n\n"
        "def kernel(x, w):\n"
        "    return torch.from_numpy(torch.softmax(x, -1).numpy() * w.numpy())\n"
    )
    assert timing.median_ms["candidate"] > 0
