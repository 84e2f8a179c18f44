"""The table of cheats: kernels of ``tests/adversarial/kernels``, what is right to say of each, and what refuses it.

It stands here and not in the kernels: no candidate can be told by its text. ``tests/harness`` judges those that
verification refuses on a device of its own, ``tests/adversarial`` the others through the command line.
"""

from dataclasses import dataclass, field
from pathlib import Path

from .attacks import AFTER, ATTACKS, CONTROLS
from .expected import Expected, Guarantee, is_
from .gpu import MIDDLE_GPU, PRODUCT_GPU, ROWS_GPU, SMALL_GPU
from .problems import (
    AVERAGE,
    BATCHNORM,
    CORNERS,
    DISTANCE,
    GATE,
    HEADS,
    LOSS,
    PAIR,
    PRODUCT,
    ROUNDING,
    ROUTER,
    SCORES,
    STEP,
    TWO_SIZES,
)
from .rows import ROWS
from .white_box import ANSWERS, FREEZING, LARGE, SEGMENTS, SHARES, SMALL, STEPS, TRIANGLE, WHEN_TIMED

FOLDER = Path(__file__).parent.parent.parent / "adversarial"
KERNELS, PROBLEMS = FOLDER / "kernels", FOLDER / "problems"


@dataclass(frozen=True)
class Suite:
    """One problem and the kernels that are judged on it in one call, in this order."""

    problem: Path
    pool: str
    order: tuple[str, ...]
    expected: dict[str, Expected] = field(repr=False)

    @property
    def always(self) -> set[str]:
        """What ``make test`` judges through the command line; ``tests/harness`` judges what needs no clock."""
        return set(self.order[::6] if self.pool == "gpu" else ()) | (SAMPLE & set(self.order))

    def path(self, name: str) -> Path:
        """The kernel's file; what is written for one device may serve on the other."""
        own = "cuda" if self.pool == "gpu" else "cpu"
        return next(path for folder in (own, "cpu") if (path := KERNELS / folder / f"{name}.py").exists())


def _suite(problem: str, expected: dict[str, Expected], before: tuple[str, ...] = (), pool: str = "cpu") -> Suite:
    rest = tuple(name for name in expected if name not in before)
    return Suite(PROBLEMS / f"{problem}.py", pool, (*before, *rest), expected)


SUITES = {
    "rows": _suite(
        "rows",
        {**ATTACKS, **CONTROLS, **ROWS, **FREEZING, **ANSWERS, **WHEN_TIMED},
        tuple(name for pair in AFTER.items() for name in pair),
    ),
    "small": _suite("small", SMALL | {"plainly_wrong": is_("wrong_numbers", naive=False)}),
    "segments": _suite("segments", SEGMENTS),
    "shares": _suite("shares", SHARES),
    "large": _suite("large", LARGE),
    "triangle": _suite("triangle", TRIANGLE),
    "steps_in_a_row": _suite("steps_in_a_row", STEPS),
    "pair": _suite("pair", PAIR),
    "product": _suite("product", PRODUCT),
    "average": _suite("average", AVERAGE),
    "batchnorm": _suite("batchnorm", BATCHNORM),
    "gate": _suite("gate", GATE),
    "corners": _suite("corners", CORNERS),
    "heads": _suite("heads", HEADS),
    "router": _suite("router", ROUTER),
    "rounding": _suite("rounding", ROUNDING),
    "step": _suite("step", STEP),
    "scores": _suite("scores", SCORES),
    "loss": _suite("loss", LOSS),
    "distance": _suite("distance", DISTANCE),
    "two_sizes": _suite("two_sizes", TWO_SIZES),
    "rows_gpu": _suite("rows_gpu", ROWS_GPU, pool="gpu"),
    "small_gpu": _suite("small_gpu", SMALL_GPU, pool="gpu"),
    "middle_gpu": _suite("middle_gpu", MIDDLE_GPU, pool="gpu"),
    "product_gpu": _suite("product_gpu", PRODUCT_GPU, pool="gpu"),
}

SAMPLE = {
    # Attacks, and who is judged after them.
    *("fork_bomb", "honest", "hundred_gigabytes", "honest_fused", "segfault", "drops_a_torch_py", "plainly_wrong"),
    # Other tests ask of these.
    *("decoy", "half_precision", "half_precision_with_text", "honest_weights"),
    # Right until they are timed, or while they are.
    *("honest_backward", "works_less_in_short_batches", "remembers_in_the_contest", "wakes_by_timer"),
    *("computes_on_continue", "cannot_be_read", "forges_many_elements", "forges_outputs_in_the_inputs"),
    *("answers_deeply", "subclass_when_timed", "counts_calls", "raises_when_timed", "traces_the_harness"),
    "computes_all_at_once",
}
"""Kernels of the CPU that ``make test`` judges through the command line; ``make test-all`` judges all."""

__all__ = ["AFTER", "FOLDER", "KERNELS", "PROBLEMS", "SAMPLE", "SUITES", "Expected", "Guarantee", "Suite"]
