"""The processes of a finalist are prepared together and timed under one lease; the others stand still meanwhile."""

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernelswarm.hardware.harness import profiling
from kernelswarm.hardware.harness.judgement import judged
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.harness.timing.interleaved import QUICK, THOROUGH
from kernelswarm.schemas import Verdict


class Lease:
    """Says who had it, and how."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    @contextlib.asynccontextmanager
    async def _held(self, kind: str) -> AsyncIterator[SimpleNamespace]:
        self._log.append(kind)
        yield SimpleNamespace(waited_s=0.0)
        self._log.append(f"end of {kind}")

    def shared(self, *, makes_way: bool = False) -> Any:
        return self._held("shared")

    def exclusive(self) -> Any:
        return self._held("exclusive")


class Process:
    """One process of a candidate that notes what is done with it."""

    def __init__(self, number: int, log: list[str], wrong: bool) -> None:
        self.number, self._log, self._wrong = number, log, wrong
        self.untrusted = SimpleNamespace(worker=self)

    def stand_still(self) -> None:
        self._log.append(f"stop {self.number}")

    def go_on(self) -> None:
        self._log.append(f"go {self.number}")

    async def prepare(self) -> None:
        self._log.append(f"prepare {self.number}")

    async def interleave(self, plan: Any) -> tuple[str, None]:
        self._log.append(f"time {self.number}")
        if self._wrong:
            raise judged(Verdict.hidden_work, "it was too fast")
        return f"part {self.number}", None

    async def check_taken(self) -> None:
        self._log.append(f"taken {self.number}")

    async def check_afterwards(self) -> None:
        self._log.append(f"afterwards {self.number}")

    async def close(self) -> None:
        self._log.append(f"close {self.number}")


async def timed(monkeypatch: pytest.MonkeyPatch, log: list[str], count: int, wrong: int = -1) -> list[Any]:
    made: list[Process] = []

    async def process(*arguments: Any) -> Process:
        made.append(Process(len(made), log, len(made) == wrong))
        return made[-1]

    monkeypatch.setattr(profiling, "_process", process)
    lease = Lease(log)

    def another(share: Any) -> Any:
        return contextlib.nullcontext(SimpleNamespace(share=share))

    arguments: tuple[Any, ...] = (None, lease, [], another, None, None, THOROUGH, True, count)
    return await profiling._in_processes(*arguments)


async def test_the_lease_is_taken_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    assert await timed(monkeypatch, log, 3) == [(f"part {number}", None) for number in range(3)]
    assert [line for line in log if line in ("shared", "exclusive")] == [
        "shared",
        "shared",
        "shared",
        "exclusive",
        "shared",
    ]
    begin, end = log.index("exclusive"), log.index("end of exclusive")
    assert log[begin + 1 : end][:5] == ["stop 1", "stop 2", "time 0", "go 1", "go 2"]
    assert [line for line in log[begin:end] if line.startswith("time")] == ["time 0", "time 1", "time 2"]
    assert sorted(log[end:]) == sorted(
        ["end of exclusive", "shared", "end of shared"]
        + [f"{step} {number}" for number in range(3) for step in ("taken", "afterwards", "close")]
    )


async def test_what_was_kept_before_a_fault_is_compared_and_all_end(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    with pytest.raises(profiling.Judged, match="too fast"):
        await timed(monkeypatch, log, 3, wrong=1)
    assert [line for line in log if line.startswith("taken")] == ["taken 0", "taken 1"]
    assert sorted(line for line in log if line.startswith("close")) == ["close 0", "close 1", "close 2"]


@pytest.mark.parametrize(
    ("on_processor", "large", "gib", "effort", "plan", "parts", "count"),
    [
        (False, False, 0.1, Effort(), THOROUGH, 0, 4),
        (False, False, 0.1, Effort(processes=6), THOROUGH, 4, 2),
        (False, False, 0.1, Effort(), QUICK, 0, 1),
        (False, False, 0.1, Effort(until=0.0), THOROUGH, 0, 1),
        (False, False, 1.5, Effort(), THOROUGH, 0, 2),
        (False, False, 3.0, Effort(), THOROUGH, 0, 1),
        (False, False, 0.0, Effort(), THOROUGH, 0, 1),
        (False, True, 0.1, Effort(), THOROUGH, 0, 1),
        (True, False, 0.1, Effort(), THOROUGH, 0, 1),
    ],
)
def test_how_many_are_prepared_at_once(
    on_processor: bool, large: bool, gib: float, effort: Effort, plan: Any, parts: int, count: int
) -> None:
    """``gib`` is what a call takes of a device of 80 GiB."""
    facts: Any = SimpleNamespace(peak_bytes=int(gib * (1 << 30)), parameters={})
    hardware: Any = SimpleNamespace(accelerators=(SimpleNamespace(memory_bytes=80 << 30),))
    timing: Any = SimpleNamespace(on_processor=on_processor, timed=SimpleNamespace(host=SimpleNamespace(large=large)))
    assert profiling._at_once(timing, facts, hardware, plan, effort, parts) == count
