"""Rounds of ordinary processes: how many calls make a batch, whatever the machine does meanwhile."""

from types import SimpleNamespace

import pytest

from kernelswarm.hardware.ordinary import rounds
from kernelswarm.hardware.ordinary.rounds import BATCH_NS, Runner

CALL_NS = 6_000_000
DELAY_NS = 40_000


class Process:
    """Takes as long as its calls; which of its batches were disturbed, or heard late, is given by their numbers."""

    pid = 0

    def __init__(self, late: tuple[int, ...] = (), disturbed: tuple[int, ...] = ()) -> None:
        self.late, self.disturbed = late, disturbed
        self.calls: list[int] = []

    def time(self, calls: int, seconds: float, *, warm: int = 0, nothing: bool = False, unseen: int = 0) -> int:
        if nothing:
            return DELAY_NS
        number = len(self.calls)
        self.calls.append(calls)
        if number in self.late:
            return DELAY_NS // 10
        return CALL_NS * calls + (200_000_000 if number in self.disturbed else 0)

    def wait_until_idle(self) -> None:
        pass


def runner_of(process: Process, monkeypatch: pytest.MonkeyPatch) -> Runner:
    others = SimpleNamespace(begin=lambda: None, end=lambda: None, rested_ns=0, used_ns=0)
    monkeypatch.setattr(rounds, "IdleCheck", lambda pid: others)
    return Runner("eager", process, copies=4, seconds=10.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("late", "disturbed"),
    [((), ()), ((0,), ()), ((1,), ()), ((2,), ()), ((3, 6), ()), ((), (0,)), ((), (1, 4)), ((0,), (4,))],
)
def test_a_batch_holds_what_fills_its_time(
    late: tuple[int, ...], disturbed: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,000 calls of a block of DenseNet, heard late twice, each batch had the device for six seconds."""
    process = Process(late, disturbed)
    runner = runner_of(process, monkeypatch)
    runner.calibrate()
    for _ in range(6):
        runner.sample()
    assert BATCH_NS / 2 < runner.calls * CALL_NS <= 3 * BATCH_NS
    assert max(process.calls) * CALL_NS <= 3 * BATCH_NS


def test_a_batch_that_was_heard_late_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    runner = runner_of(process, monkeypatch)
    runner.calibrate()
    process.late = (len(process.calls) + 1,)
    for _ in range(4):
        runner.sample()
    assert [round(sample / CALL_NS, 2) for sample in runner.samples] == [1.0] * 4


def test_what_grew_faster_has_longer_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    runner = runner_of(process, monkeypatch)
    runner.calibrate()
    before = runner.calls
    process.time = lambda calls, seconds, **_: DELAY_NS + 600_000 * calls  # type: ignore[method-assign]
    runner.sample()
    assert runner.calls > before
