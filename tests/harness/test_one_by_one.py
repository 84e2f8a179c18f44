"""Calls made one by one show who computes the calls of a batch together: the speedup is no higher than theirs."""

import math

import pytest

from kernelswarm.hardware.harness.messages.timing import Time, Timed
from kernelswarm.hardware.harness.timing.interleaved import (
    ALONE_ALLOWANCE,
    CANDIDATE,
    STEP_NOISE_NS,
    Implementation,
    Part,
    one_by_one,
    result,
)
from kernelswarm.hardware.harness.timing.one_by_one import LEAST_STEPS, MOST_STEPS, doubt, time_one_by_one
from kernelswarm.schemas import Series, Timing

NAMES = ("eager", CANDIDATE)


def _part(among: tuple[float, float], alone: tuple[float, float] | tuple[()]) -> Part:
    """Microseconds of eager and candidate."""
    series = tuple(
        Series(name=name, samples_ns=(int(us * 1e3),) * 4, calls=8) for name, us in zip(NAMES, among, strict=True)
    )
    return Part(series, alone_ns={name: us * 1e3 for name, us in zip(NAMES, alone, strict=False)})


def _timing(among: tuple[float, float], *alone: tuple[float, float]) -> Timing:
    """Of one process for each of ``alone``."""
    return result([_part(among, times) for times in alone])


@pytest.mark.parametrize("us", [20.0, 300.0])
def test_what_saves_nothing_alone_is_no_win(us: float) -> None:
    timing = _timing((us, us / 4), (us, us))
    assert not timing.speedup["eager"].is_win
    assert timing.speedup["eager"].median == pytest.approx(ALONE_ALLOWANCE * us / (us - STEP_NOISE_NS / 1e3))
    assert "where its inputs come after the answer before it" in doubt(timing, "best")


def test_what_a_busy_machine_adds_to_both_is_no_doubt() -> None:
    """A blocking call of one thread, beside six others: the same 7 ms more, which are five times its own time."""
    assert not doubt(_timing((7007.0, 1425.0), (13907.0, 7900.0)), "best")


@pytest.mark.parametrize(
    ("among", "alone"),
    [
        pytest.param((20.0, 5.0), (20.0, 5.4), id="what the harness takes is measured a little wrong"),
        pytest.param((20.0, 5.0), (21.0, 2.0), id="faster alone"),
        pytest.param((1000.0, 500.0), (1400.0, 690.0), id="both slower alone"),
    ],
)
def test_what_saves_as_much_alone_stays(among: tuple[float, float], alone: tuple[float, float]) -> None:
    timing = _timing(among, alone)
    assert timing.speedup["eager"].median == pytest.approx(among[0] / among[1])
    assert not doubt(timing, "best")


def test_a_speedup_between_is_lowered_to_what_calls_alone_show_and_stays_a_win() -> None:
    timing = _timing((400.0, 100.0), (400.0, 125.0))
    assert timing.speedup["eager"].median == pytest.approx(ALONE_ALLOWANCE * 400 / 124.5)
    assert timing.speedup["eager"].is_win and timing.alone_ms == {"eager": 0.4, CANDIDATE: 0.125}
    assert not doubt(timing, "best")


def test_a_baseline_that_is_slower_among_many_calls_raises_no_doubt_about_the_candidate() -> None:
    timing = _timing((2339.0, 689.0), (1105.0, 935.0))
    assert timing.speedup["eager"].median == pytest.approx(ALONE_ALLOWANCE * 1105 / 934.5)
    assert not doubt(timing, "best")


def test_one_process_of_four_does_not_decide() -> None:
    honest, late, early = (20.0, 20.0), (20.0, 80.0), (20.0, 1.0)
    parts = [_part((20.0, 5.0), alone) for alone in (honest, honest, honest, early)]
    assert one_by_one("eager", parts) == pytest.approx(20 / 19.5)
    parts = [_part((20.0, 20.0), alone) for alone in (honest, honest, honest, late)]
    assert one_by_one("eager", parts) == pytest.approx(1.0)


def test_nothing_is_lowered_where_no_calls_were_made_alone() -> None:
    timing = result([_part((20.0, 5.0), ())])
    assert one_by_one("eager", [_part((20.0, 5.0), ())]) == math.inf
    assert timing.speedup["eager"].median == pytest.approx(4.0) and timing.alone_ms == {} and not doubt(timing, "best")


class _Asked:
    """Answers with times of a call in nanoseconds, and keeps what it was asked."""

    def __init__(self, *, restless: str = "", **ns: int) -> None:
        self.ns = ns
        self.restless = restless
        self.commands: list[Time] = []

    async def __call__(self, command: Time) -> Timed:
        self.commands.append(command)
        ns = self.ns[command.name] * command.calls
        return Timed(ns=ns, whole_ns=ns, kept=-1, is_restless=command.name == self.restless)

    def implementation(self, name: str, calls: int, most_calls: int = 500) -> Implementation:
        return Implementation(name=name, ask=self, calls=calls, most_calls=most_calls)


@pytest.mark.asyncio
async def test_what_the_harness_takes_is_taken_off() -> None:
    asked = _Asked(eager=30_000, candidate=14_000, idle=10_000)
    pair = [asked.implementation("eager", 1), asked.implementation(CANDIDATE, 400)]
    alone = await time_one_by_one(pair, asked.implementation("idle", 500))
    assert alone == {"eager": 20_000, CANDIDATE: 4_000}
    assert [command.calls for command in asked.commands] == [MOST_STEPS, LEAST_STEPS, MOST_STEPS]
    assert all(command.one_by_one for command in asked.commands)


@pytest.mark.asyncio
async def test_a_loop_of_its_own_does_not_make_a_call_take_no_time() -> None:
    asked = _Asked(eager=30_000, candidate=8_000, idle=10_000)
    pair = [asked.implementation("eager", 8), asked.implementation(CANDIDATE, 400)]
    alone = await time_one_by_one(pair, asked.implementation("idle", 500))
    assert alone == {"eager": 20_000, CANDIDATE: 1_000}


@pytest.mark.asyncio
async def test_who_computes_before_its_inputs_are_due_pays_the_whole_turn() -> None:
    asked = _Asked(eager=30_000, candidate=11_000, idle=10_000, restless=CANDIDATE)
    pair = [asked.implementation("eager", 8), asked.implementation(CANDIDATE, 400)]
    alone = await time_one_by_one(pair, asked.implementation("idle", 500))
    assert alone == {"eager": 20_000, CANDIDATE: 11_000}


@pytest.mark.asyncio
async def test_who_has_batches_of_one_call_keeps_them() -> None:
    asked = _Asked(eager=30_000, candidate=14_000, idle=10_000)
    pair = [asked.implementation("eager", 9), asked.implementation(CANDIDATE, 1)]
    assert await time_one_by_one(pair, asked.implementation("idle", 500)) == {} and not asked.commands
    await pair[1].sample()
    assert pair[1].calls == 1
