"""A problem may name several shapes that are timed: each is timed and judged on its own, the mean counts."""

import math
import time
from pathlib import Path

import msgspec
import pytest

import given
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.harness.timing.several_shapes import baselines_of, timing_of
from kernelswarm.hardware.ordinary.timed_shapes import OrdinaryHosts
from kernelswarm.schemas import (
    BaselineReport,
    BaselineStatus,
    Interval,
    Problem,
    ProblemError,
    ProblemFacts,
    ProfileReport,
    Roofline,
    Series,
    ShapeBaselines,
    ShapeTiming,
    Timing,
    Verdict,
)

from .conftest import problem_from

SHAPES = '{"ragged": dict(rows=7, cols=33), "main": dict(rows=64, cols=512), "decode": dict(rows=2, cols=512)}'
SOFTMAX = f"""
import torch

shapes = {SHAPES}
timed = {{"main": 3, "decode": 1}}

def inputs(generator, rows, cols):
    return [3 * torch.randn(rows, cols, generator=generator)]

def reference(x):
    return torch.softmax(x, -1)
"""
HONEST = "import torch\ndef kernel(x):\n    return torch.softmax(x, -1)\n"
NO_MAXIMUM = (
    "import torch\ndef kernel(x):\n    if x.shape != (2, 512):\n        return torch.softmax(x, -1)\n"
    "    powers = x.exp()\n    return powers / powers.sum(-1, keepdim=True)\n"
)
FREE = (
    "import torch\nkept, calls = [], [0]\ndef kernel(x):\n    right = torch.softmax(x, -1)\n"
    "    if x.shape != (2, 512):\n        return right\n    calls[0] += 1\n    kept.append(right)\n"
    "    return right if calls[0] <= 2 else kept[0].clone()\n"
)
"""From the third call of a process on the second timed shape gets an old answer."""


class OneShape:
    """Ordinary processes at one shape, which say how much time they have."""

    missing: dict[str, str] = {}

    async def get_ready(self, lease: object, absent: object) -> None:
        self.is_ready = True

    async def time(self, text: str, lease: object, effort: Effort, *others: object) -> Timing:
        self.left_s = effort.until - time.monotonic()
        return given.against_all(1.0, eager=2.0)


async def test_a_shape_has_its_share_of_the_time_that_is_left(softmax: Problem, device: Device) -> None:
    facts = await device.validate_problem(softmax)
    hosts = OrdinaryHosts(None, softmax, facts)  # type: ignore[arg-type]
    shapes = hosts._hosts[:] = [OneShape(), OneShape()]  # type: ignore[list-item]
    await hosts.time("", None, Effort(until=time.monotonic() + 1000.0))  # type: ignore[arg-type]
    assert [host.left_s for host in shapes] == pytest.approx([500.0, 1000.0], rel=0.1)


async def test_whoever_waits_for_the_timing_alone_is_told_what_is_being_done() -> None:
    """`kernelswarm time` printed nothing more for a minute."""
    main = given.facts().shapes[0]
    shapes = tuple(msgspec.structs.replace(main, name=name, weight=1.0) for name in ("main", "decode"))
    hosts = OrdinaryHosts(None, given.problem(), given.facts(shapes=shapes))  # type: ignore[arg-type]
    hosts._hosts[:] = [OneShape(), OneShape()]  # type: ignore[list-item]
    notices: list[str] = []
    hosts.notify = notices.append
    await hosts.time("", None, Effort(until=time.monotonic() + 1000.0))  # type: ignore[arg-type]
    assert [notice.partition(":")[0].partition(",")[0] for notice in notices] == [
        "starting the baselines at shape main",
        "timing it in turns with the baselines at shape main",
        "starting the baselines at shape decode",
        "timing it in turns with the baselines at shape decode",
    ]
    assert all(host.is_ready for host in hosts._hosts)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return problem_from(tmp_path_factory.mktemp("problem"), SOFTMAX)


async def _profiled(device: Device, problem: Problem, source: str) -> tuple[ProblemFacts, ProfileReport]:
    facts = await device.validate_problem(problem)
    compiled, _ = await device.compile(source, "cpp")
    verified = await device.verify(problem, source, compiled)
    assert verified.verdict is Verdict.correct, verified.evidence
    return facts, await device.profile(problem, facts, source, compiled)


@pytest.mark.asyncio(loop_scope="session")
async def test_every_timed_shape_has_its_run_and_its_floor(device: Device, softmax: Problem) -> None:
    facts, report = await _profiled(device, softmax, HONEST)

    assert [(shape.name, shape.weight) for shape in facts.shapes] == [("main", 3), ("decode", 1), ("ragged", 0)]
    assert facts.work.read_bytes == 64 * 512 * 4
    decode = facts.at(facts.shapes[1])
    assert decode.shapes[0].name == "decode" and decode.work.read_bytes == 2 * 512 * 4 and decode.graph is None
    assert report.verdict is Verdict.correct and report.timing is not None, report.evidence
    main, second = report.timing.shapes
    assert (main.shape, main.weight, second.shape, second.weight) == ("main", 3, "decode", 1)
    for shape in (main, second):
        assert {series.name for series in shape.timing.series} == {"eager", "candidate"}
        assert all(series.samples_ns for series in shape.timing.series) and shape.roofline is not None
    expected = math.exp((3 * math.log(main.counted().median) + math.log(second.counted().median)) / 4)
    assert report.timing.speedup["eager"].median == pytest.approx(expected)
    assert report.timing.series == ()
    one_shape = report.at_first_shape()
    assert one_shape.timing == main.timing and one_shape.roofline == main.roofline
    baselines = await device.baselines(softmax, facts)
    assert [shape.shape for shape in baselines.shapes] == ["main", "decode"]


@pytest.mark.asyncio(loop_scope="session")
async def test_the_finished_file_is_timed_at_every_shape(device: Device, softmax: Problem) -> None:
    facts = await device.validate_problem(softmax)

    timing, missing = await device.ordinary(softmax, facts, finish(softmax, facts, HONEST), effort=Effort(processes=1))

    assert timing is not None, missing
    assert [shape.shape for shape in timing.shapes] == ["main", "decode"]


@pytest.mark.asyncio(loop_scope="session")
async def test_harder_inputs_come_at_every_timed_shape(device: Device, softmax: Problem) -> None:
    compiled, _ = await device.compile(NO_MAXIMUM, "cpp")

    report = await device.verify(softmax, NO_MAXIMUM, compiled)

    assert report.verdict is Verdict.wrong_numbers and report.evidence is not None
    assert report.evidence.shape == "decode" and report.evidence.inputs == "heavy_tailed"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("elsewhere", "verdict", "gradients"),
    [
        ("torch.softmax(x.detach(), -1)", Verdict.correct, "reference"),
        ("(lambda y: y.detach() + 2 * (y - y.detach()))(torch.softmax(x, -1))", Verdict.wrong_gradients, ""),
        ("torch.softmax(x, -1)", Verdict.correct, "own"),
    ],
    ids=["none", "wrong", "right"],
)
async def test_gradients_are_judged_at_every_timed_shape(
    device: Device, softmax: Problem, elsewhere: str, verdict: Verdict, gradients: str
) -> None:
    """The smallest shape alone says nothing of the kernel that computes at another one."""
    source = f"import torch\ndef kernel(x):\n    return torch.softmax(x, -1) if x.shape != (64, 512) else {elsewhere}\n"
    compiled, _ = await device.compile(source, "cpp")

    report = await device.verify(softmax, source, compiled)

    assert (report.verdict, report.gradients) == (verdict, gradients), report.evidence


@pytest.mark.asyncio(loop_scope="session")
async def test_a_shape_that_is_free_is_found_while_it_is_timed(device: Device, softmax: Problem) -> None:
    facts = await device.validate_problem(softmax)
    compiled, _ = await device.compile(FREE, "cpp")

    report = await device.profile(softmax, facts, FREE, compiled)

    assert report.verdict in (Verdict.wrong_numbers, Verdict.stale_output), report.evidence
    assert report.timing is None and report.evidence is not None and "decode" in report.evidence.shape


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("timed", "sentence"),
    [
        ('["main"]', "`timed` is a list; give weights by shape, e.g. timed = {'ragged': 1, 'main': 1}"),
        ("{}", "`timed` is a dict; give weights"),
        ('{"large": 1}', "`timed` names 'large', which is none of its shapes: ragged, main, decode"),
        ('{"main": 0}', "the weight of timed shape 'main' is 0; give a number above 0"),
        ('{"main": float("inf")}', "the weight of timed shape 'main' is inf"),
        ("{str(i): 1 for i in range(9)}", "has 9 timed shapes; 8 are the most"),
    ],
)
async def test_what_is_no_weights_is_refused(device: Device, tmp_path: Path, timed: str, sentence: str) -> None:
    text = SOFTMAX.replace('{"main": 3, "decode": 1}', timed)

    with pytest.raises(ProblemError) as refused:
        await device.validate_problem(problem_from(tmp_path, text))

    assert sentence in str(refused.value)


def _timing(best: str, **speedups: float) -> Timing:
    """Of a candidate that takes a millisecond."""
    return Timing(
        series=tuple(Series(name=name, samples_ns=(1,), calls=1) for name in (*speedups, "candidate")),
        rounds=(1,),
        speedup={name: Interval(median=x, low=x / 1.1, high=x * 1.1) for name, x in speedups.items()},
        best=best,
        median_ms={**speedups, "candidate": 1.0},
    )


def test_the_baseline_that_counts_is_the_best_of_each_shape() -> None:
    first = ShapeTiming(shape="a", weight=1, timing=_timing("eager", eager=2.0, compile=8.0))
    second = ShapeTiming(shape="b", weight=1, timing=_timing("compile", eager=8.0, compile=0.5))

    timing = timing_of([first, second])

    assert timing.best == "best_per_shape"
    assert timing.speedup["eager"].median == pytest.approx(4.0)
    assert timing.speedup["best_per_shape"].median == pytest.approx(1.0) == timing.median_ms["best_per_shape"]
    assert timing.worst_shape() is second and timing.worst_shape("eager") is first
    assert timing.baseline("best") == "best_per_shape" and timing.baseline("compile") == "compile"
    assert timing_of([first]) is first.timing


def test_a_baseline_that_is_missing_at_a_shape_has_no_mean() -> None:
    first = ShapeTiming(shape="a", weight=1, timing=_timing("eager", eager=2.0, compile=8.0))
    second = ShapeTiming(shape="b", weight=1, timing=_timing("eager", eager=8.0))

    assert set(timing_of([first, second]).speedup) == {"eager"}


def test_a_baseline_is_missing_if_it_is_at_some_shape() -> None:
    def report(ok: bool) -> BaselineReport:
        statuses = (
            BaselineStatus(name="eager", ok=True, seconds=0.0),
            BaselineStatus(name="compile", ok=ok, seconds=2.0, detail="" if ok else "too deep"),
        )
        floor = Roofline(floor_ms=0.5, fraction=0.5, limit="memory")
        return BaselineReport(statuses=statuses, median_ms={"eager": 1.0}, best="eager", roofline=floor)

    shapes = [ShapeBaselines(shape=name, weight=1, report=report(name == "a")) for name in ("a", "b")]
    combined = baselines_of(shapes)

    assert [(status.ok, status.detail) for status in combined.statuses] == [
        (True, ""),
        (False, "at shape b: too deep"),
    ]
    assert combined.roofline.fraction == pytest.approx(0.5) and combined.shapes == tuple(shapes)
