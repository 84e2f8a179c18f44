"""The section of docs/results.md on the generator's first drafts on KernelBench."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _results_markdown import bullets, load_json, ratio, section, table
from first_drafts import best_ms, speedup

FILE = "first_drafts.json"
LOSES = 0.9
"""Problems whose best draft lies below are listed."""


def drafts(folder: Path) -> str:
    """Levels 1 and 2: the best of four first drafts over the better of eager and torch.compile."""
    record = load_json(folder, FILE)
    rows: Mapping[str, Mapping[str, Any]] = record["rows"]
    losers = sorted((ratio_, name) for name, row in rows.items() if (ratio_ := speedup(row)) and ratio_ < LOSES)
    cores, versions = record["machine"]["cores"], record["versions"]
    return section(
        "First drafts on KernelBench, one H200 each",
        f"""
The best of four drafts a problem, without a search and without the judge (`benchmarks/first_drafts.py`): device time
by replays, in turns with eager and `torch.compile`. A draft counts if it differs from eager by no more than the
problem's error bound.
Run: {record["date"][:10]}, commit {versions["commit"]}, two {record["device"]} of one host with {cores}
cores, three problems at once on each. One is timed while others may be validated, so some times are up to half longer
than alone, for all implementations of a problem; torch {versions["torch"]}, triton {versions["triton"]}; file
`{FILE}`.
""",
        table(
            ("level", "problems", "timed", "above 1.03", "geometric mean", "with a miss as 1"),
            [_level(level, rows) for level in ("1", "2")],
        ),
        f"""
The ratio is over the faster of eager and `torch.compile`. Of the problems that were not timed seven were not begun,
five are refused, and two ran out of memory. Best drafts below {LOSES:.2f}:
""",
        table(
            ("problem", "eager ms", "compile ms", "draft ms", "over the better"),
            [_row(name, rows[name]) for _, name in losers],
        ),
        bullets(
            """In most of these problems eager computes the convolution in fp32, and `torch.compile`, with channels
            last, in TF32. Drafts had to be as exact as eager. TF32 is permitted now ([decision
            0035](decisions/0035-tf32-where-switches-permit-it.md)): drafts with it took 1.75 ms for `91`, 0.71 for
            `69`, 0.84 for `73` and 4.58 for `65`.""",
            "`1/6` is one product over 524,288 elements: 32 parts on 132 multiprocessors, in three TF32 products.",
            "`1/33`: the norm computes the variance about the exact mean, in a second pass.",
        ),
    )


def _level(level: str, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    here = [row for name, row in rows.items() if name.startswith(f"{level}/")]
    ratios = [value for row in here if (value := speedup(row))]
    floored = [max(1.0, speedup(row) or 1.0) for row in here]
    counts = (len(here), len(ratios), sum(value > 1.03 for value in ratios))
    means = (statistics.geometric_mean(values) for values in (ratios, floored))
    return [level, *map(str, counts), *map(ratio, means)]


def _row(name: str, row: Mapping[str, Any]) -> list[str]:
    times = (row["eager_ms"], row["compile_ms"], best_ms(row) or 0.0)
    return [name.replace("_", " ")[:40].strip(), *(f"{ms:.3f}" for ms in times), ratio(speedup(row) or 0.0)]
