"""One problem's result: a line of the CSV."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ...schemas import InputError, Interval, Schema

Key = tuple[str, str]
"""Subset and name of a problem: one name may stand in several subsets."""


class Outcome(StrEnum):
    """How it went with one problem."""

    running = "running"
    """Begun and not ended: its session goes on when the command is given again."""
    correct = "correct"
    """The best kernel is right and was timed, whatever its speedup."""
    no_correct_candidate = "no_correct_candidate"
    refused = "refused"
    """It cannot be searched on this pool."""
    timeout = "timeout"
    """It took more than ``minutes_per_problem``."""
    crash = "crash"
    """Something of ours broke."""


COMPILE_LATE = "torch.compile was still being compiled"
"""Cause of a miss: the best kernel was not compared with it, so nobody knows whether it is faster than the best."""
NO_DROP_IN = "no drop-in"
"""How the cause begins where the best kernel's finished file has not every property that a win needs."""


class Row(Schema, frozen=True, kw_only=True):
    """A problem's result. Fields are the CSV's columns in their order; what is not known is empty there."""

    subset: str = ""
    """Part of the benchmark: KernelBench's level, SOL-ExecBench's category."""
    number: int
    problem: str
    """The task's name; of a file its stem: ``19_ReLU``."""
    verdict: Outcome
    cause: str = ""
    """Why it is a miss (no interval above 1 over the best baseline), in a few words; empty if it is none."""
    detail: str = ""
    """The same as a sentence."""
    ordinary_eager_speedup: float | None = None
    """Median time of eager over that of the best kernel, in ordinary processes; empty where that was not measured."""
    ordinary_eager_low: float | None = None
    """Low end of its 95 % interval."""
    ordinary_eager_high: float | None = None
    ordinary_compile_speedup: float | None = None
    """The same against the faster of torch.compile and max-autotune there."""
    ordinary_compile_low: float | None = None
    ordinary_compile_high: float | None = None
    call_eager_speedup: float | None = None
    """On an accelerator: the same of the call, host overhead included; ``eager_speedup`` is the device's there."""
    call_eager_low: float | None = None
    call_eager_high: float | None = None
    call_compile_speedup: float | None = None
    call_compile_low: float | None = None
    call_compile_high: float | None = None
    eager_speedup: float | None = None
    """Median time of eager over that of the best kernel, from one interleaved run of the judge."""
    eager_low: float | None = None
    """Low end of its 95 % interval."""
    eager_high: float | None = None
    compile_speedup: float | None = None
    """The same against the faster of torch.compile and max-autotune in that run."""
    compile_low: float | None = None
    compile_high: float | None = None
    compile_baseline: str = ""
    """Which of them: ``compile`` or ``max_autotune``; ``eager`` where neither compiles; empty where none was there."""
    eager_ms: float | None = None
    compile_ms: float | None = None
    max_autotune_ms: float | None = None
    kernel_ms: float | None = None
    """Median time of the best kernel, milliseconds."""
    timed_shapes: int = 1
    """How many were timed; of several, times and speedups are weighted geometric means."""
    worst_shape: str = ""
    """Of several: the one with the least speedup over the best baseline there."""
    worst_speedup: float | None = None
    worst_low: float | None = None
    roofline_fraction: float | None = None
    """Share of the floor: the least time that the device allows, over :attr:`kernel_ms`."""
    own_check: str = ""
    """``passed`` or ``failed``: the best kernel by the tolerance that the benchmark publishes, where it does so.

    The verdict is by the judge's.
    """
    score: float | None = None
    """The benchmark's own figure of merit, where it has one."""
    candidates: int = 0
    """Planned."""
    correct: int = 0
    """Of them: right and timed."""
    ended: str = ""
    """Why the search ended: ``budget``, ``minutes``, ``stall``, ``floor``, …"""
    seconds: float = 0.0
    """Of the whole problem, validation included; of a resumed one since it was resumed."""
    session: str = ""
    node: str = ""
    """Of the best kernel: ``kernelswarm show SESSION --node NODE --source`` prints it."""
    precision: str = ""
    """dtype of the first floating output, which candidates must match."""
    tf32: str = ""
    """Where fp32 products may round to TF32, alike for reference, baselines and candidate."""
    pool: str = ""
    pool_sha256: str = ""
    """Of the pool's settings, twelve digits."""
    device: str = ""
    budget: int = 0
    minutes_per_problem: float = 0.0
    seed: int = 0
    synthesizer: str = ""
    model: str = ""
    problem_sha256: str = ""
    versions: str = ""
    """Of kernelswarm, torch, and what else timings depend on."""
    at: str = ""
    """When it began, UTC."""

    @property
    def key(self) -> Key:
        """Which problem it is of."""
        return self.subset, self.problem

    def speedup(self, against: str) -> Interval | None:
        """Over one of :data:`AGAINST`; None where that was not measured, or no user could have it.

        ``best`` is the faster of eager and the best compile in the same run: the smaller ratio.
        """
        place, _, baseline = against.rpartition("_")
        if self.cause.startswith(NO_DROP_IN) or (self.cause == COMPILE_LATE and baseline != "eager"):
            return None
        if baseline == "best":
            both = [self.speedup(f"{place}_{name}" if place else name) for name in ("eager", "compile")]
            return min((ratio for ratio in both if ratio is not None), key=lambda ratio: ratio.median, default=None)
        median, low, high = (getattr(self, f"{against}_{end}") for end in ("speedup", "low", "high"))
        return None if None in (median, low, high) else Interval(median=median, low=low, high=high)

    @property
    def counted(self) -> Interval | None:
        """The ratio over the best baseline that counts: of ordinary processes where that was measured, if the judge's
        is a win at all."""
        return self.speedup(f"{self._place}best")

    @property
    def best_baseline(self) -> str:
        """``eager`` or ``the best compile``: which was faster where :attr:`counted` was measured."""
        eager, compiled = self.speedup(f"{self._place}eager"), self.speedup(f"{self._place}compile")
        return "the best compile" if eager and compiled and compiled.median < eager.median else "eager"

    @property
    def _place(self) -> str:
        judged = self.speedup("best")
        ordinary = judged is not None and judged.is_win and self.speedup("ordinary_best") is not None
        return "ordinary_" if ordinary else ""

    @property
    def is_miss(self) -> bool:
        """Whether the best kernel is not surely faster than the best baseline, in ordinary processes as well."""
        return self.counted is None or not self.counted.is_win


BASELINES = ("best", "eager", "compile")
"""What speedups are over; ``compile`` is the faster of torch.compile and max-autotune, ``best`` that or eager."""

PLACES = ("ordinary_", "", "call_")
"""Ordinary processes, the judge (on an accelerator the device's own time), the call on an accelerator."""

AGAINST = tuple(f"{place}{baseline}" for place in PLACES for baseline in BASELINES)

COLUMNS = Row.__struct_fields__

IDENTITY = {
    "problem_sha256": "its file",
    "pool": "the pool",
    "pool_sha256": "the pool's settings",
    "device": "the device",
    "budget": "the budget",
    "minutes_per_problem": "the minutes",
    "seed": "the seed",
    "synthesizer": "the author",
    "model": "the model",
    "versions": "the versions",
}
"""Columns that must be the same for a kept row to stand, and what people call them."""


def changes(kept_row: Row, new_row: Row) -> list[str]:
    """What is not as it was when ``kept_row`` was written, for people; empty if the row stands."""
    return [name for column, name in IDENTITY.items() if getattr(kept_row, column) != getattr(new_row, column)]


def to_cells(row: Row) -> dict[str, str]:
    """The row as text by column."""
    values = msgspec.structs.asdict(row)
    return {name: "" if values[name] is None else str(values[name]) for name in COLUMNS}


def from_cells(cells: Mapping[str | None, Any]) -> Row:
    """The row that a line of the CSV holds; columns that are missing have their defaults.

    Raises:
        InputError: a cell cannot be read.
    """
    given = {name: cells[name] for name in COLUMNS if cells.get(name) not in (None, "")}
    given.setdefault("subset", cells.get("level") or "")  # as the column was called while there was KernelBench alone
    try:
        return msgspec.convert(given, Row, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error
