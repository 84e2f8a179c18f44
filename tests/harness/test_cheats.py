"""Every cheat that verification refuses, on one device: under the right name, for the right reason, at its own cost."""

from collections.abc import Awaitable, Callable

import pytest
from cheats import AFTER, KERNELS, PROBLEMS, SUITES, Expected
from msgspec.structs import replace

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemFacts, Verdict, VerifyReport, encode

pytestmark = pytest.mark.asyncio(loop_scope="session")

VerifyKernel = Callable[[str, str], Awaitable[VerifyReport]]

CHECKED = {
    f"{kernel} on {name}": (name, kernel, expected)
    for name, suite in SUITES.items()
    for kernel, expected in suite.expected.items()
    if suite.pool == "cpu" and expected.refused_when_checked
}
LATE = {name: line for name, line in CHECKED.items() if "hidden_work" in line[2].verdicts}
"""They compute some milliseconds after the call: a machine that is busy for longer shows a wrong answer instead."""
LARGE = {"scores", "loss", "distance", "two_sizes"}
"""Problems of which each kernel takes a second and more."""
LIMIT_S = 2.0
"""Of an endless loop."""
WHEN_TIMED = [
    *("right_until_timed", "remembers_addresses_when_timed", "skips_all_but_the_last_of_a_batch"),
    *("remembers_elements_when_timed", "remembers_sums_when_timed"),
]


@pytest.fixture
def verify_kernel(device: Device, monkeypatch: pytest.MonkeyPatch) -> VerifyKernel:
    async def judge(suite: str, kernel: str) -> VerifyReport:
        source = SUITES[suite].path(kernel).read_text()
        report, _ = await device.compile(source, "cpp")
        with monkeypatch.context() as patch:
            if SUITES[suite].expected[kernel].verdicts == {"timeout"}:
                patch.setattr(device, "_pool", replace(device._pool, candidate_seconds=LIMIT_S))
            return await device.verify(load_problem(PROBLEMS / f"{suite}.py"), source, report)

    return judge


def check(report: VerifyReport, expected: Expected) -> None:
    if expected.needs and expected.needs not in report.isolation:
        pytest.skip(f"this machine permits no {expected.needs}: {report.isolation}")
    assert report.verdict.value in expected.verdicts, report.evidence
    assert report.evidence is not None and report.evidence.message
    assert expected.says in encode(report).decode()


@pytest.mark.parametrize(
    ("suite", "kernel", "expected"),
    [pytest.param(*line, id=name) for name, line in CHECKED.items() if name not in LATE],
)
async def test_is_refused_before_it_is_timed(
    verify_kernel: VerifyKernel, suite: str, kernel: str, expected: Expected
) -> None:
    check(await verify_kernel(suite, kernel), expected)


@pytest.mark.parametrize(("suite", "kernel", "expected"), [pytest.param(*line, id=name) for name, line in LATE.items()])
async def test_what_computes_after_its_call_is_refused(
    verify_kernel: VerifyKernel, suite: str, kernel: str, expected: Expected
) -> None:
    check(await verify_kernel(suite, kernel), expected)


@pytest.mark.parametrize("attack", AFTER)
async def test_what_comes_after_an_attack_is_judged_and_timed_as_if_there_had_been_none(
    device: Device, problem: Problem, facts: ProblemFacts, verify_kernel: VerifyKernel, attack: str
) -> None:
    attacked, after = await verify_kernel("rows", attack), AFTER[attack]
    check(attacked, SUITES["rows"].expected[attack])
    judged = await verify_kernel("rows", after)
    assert judged.verdict.value in SUITES["rows"].expected[after].verdicts, judged.evidence
    if judged.verdict is Verdict.correct:
        source = SUITES["rows"].path(after).read_text()
        compiled, _ = await device.compile(source, "cpp")
        timed = await device.profile(problem, facts, source, compiled)
        assert timed.verdict is Verdict.correct and timed.timing is not None, timed.evidence


@pytest.mark.parametrize("kernel", WHEN_TIMED)
async def test_what_is_right_until_it_is_timed_gains_nothing(
    device: Device, problem: Problem, facts: ProblemFacts, kernel: str
) -> None:
    expected, source = SUITES["rows"].expected[kernel], (KERNELS / "cpu" / f"{kernel}.py").read_text()
    report, _ = await device.compile(source, "cpp")
    assert (await device.verify(problem, source, report)).verdict is Verdict.correct

    profiled = await device.profile(problem, facts, source, report)

    assert profiled.verdict.value in expected.verdicts, profiled.evidence
    if profiled.verdict is Verdict.correct:
        assert profiled.timing is not None and profiled.timing.speedup["eager"].low <= 1.0
    else:
        assert profiled.timing is None


@pytest.mark.parametrize("kernel", ["clock_shows_a_third", "clock_stands_still"])
async def test_a_clock_of_its_own_is_noticed_without_a_verification_before(
    device: Device, problem: Problem, facts: ProblemFacts, kernel: str
) -> None:
    source = (KERNELS / "cpu" / f"{kernel}.py").read_text()
    report, _ = await device.compile(source, "cpp")
    assert (await device.profile(problem, facts, source, report)).verdict is Verdict.tampering
