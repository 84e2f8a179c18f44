"""Batches of one call show who computes the calls of a batch together; threads that wake up raise no doubt."""

import pytest

from kernelswarm.hardware.harness.messages.timing import Time, Timed
from kernelswarm.hardware.harness.timing.interleaved import CANDIDATE, Implementation, Part, result
from kernelswarm.hardware.harness.timing.single_calls import doubt, time_single_calls
from kernelswarm.schemas import Series, Timing


def _timing(among: dict[str, float], single: dict[str, float]) -> Timing:
    """Of one process; milliseconds."""
    series = tuple(Series(name=name, samples_ns=(int(ms * 1e6),) * 4, calls=8) for name, ms in among.items())
    return result([Part(series, single_ns={name: int(ms * 1e6) for name, ms in single.items()})])


def test_what_saves_nothing_alone_is_doubted() -> None:
    timing = _timing({"eager": 1.0, CANDIDATE: 0.2}, {"eager": 1.1, CANDIDATE: 1.12})
    assert "a batch of one 1.120 ms (eager 1.100)" in doubt(timing, "best")


@pytest.mark.parametrize(
    ("among", "single"),
    [
        pytest.param((1.0, 0.2), (1.1, 0.7), id="threads that wake up"),
        pytest.param((0.05, 0.01), (0.25, 0.27), id="short calls beside what a batch costs"),
        pytest.param((1.0, 0.5), (1.4, 1.4), id="a batch costs as much as is saved"),
        pytest.param((2.339, 0.689), (1.105, 0.935), id="a baseline whose threads share a core among many calls"),
        pytest.param((1.0, 0.98), (1.1, 1.11), id="as fast as the baseline"),
        pytest.param((1.0, 1.5), (1.1, 2.0), id="slower"),
    ],
)
def test_what_may_be_the_cost_of_a_batch_is_not(among: tuple[float, float], single: tuple[float, float]) -> None:
    names = ("eager", CANDIDATE)
    assert not doubt(_timing(dict(zip(names, among, strict=True)), dict(zip(names, single, strict=True))), "best")


def test_nothing_is_said_where_no_single_calls_were_timed() -> None:
    assert not doubt(_timing({"eager": 1.0, CANDIDATE: 0.2}, {}), "best")


@pytest.mark.asyncio
async def test_the_least_batch_of_each_counts_and_long_calls_have_none_of_their_own() -> None:
    durations = iter([900, 300, 700, 400])

    async def ask(command: Time) -> Timed:
        assert command.calls == 1
        ns = next(durations)
        return Timed(ns=ns - 100, whole_ns=ns, kept=-1)

    pair = [Implementation(name="eager", ask=ask, calls=9), Implementation(name=CANDIDATE, ask=ask, calls=9)]
    assert await time_single_calls(pair, 2) == {"eager": 700, CANDIDATE: 300}
    pair[1].calls = 1
    assert await time_single_calls(pair, 2) == {}
