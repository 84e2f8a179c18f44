"""The section of docs/results.md on kernels of others, judged and run by hand on an H100."""

import statistics
from collections.abc import Mapping
from pathlib import Path

from _results_markdown import Record, bullets, load_json, ratio, run_line, section, table

PUBLISHED = "published_h100.json"
LONGEST_NAME = 30

WHY = bullets(
    """Five exceed the judge's bound or are wrong on changed inputs; on their own inputs their error is below a
    hundredth.""",
    """`l2_22` computes the first of 128 rows and returns unwritten memory for the rest. By hand that memory still
    holds the reference's result.""",
    "`l1_33` does not update the running statistics. `swiglu_claude_strict` returns one buffer for all calls.",
    """`l3_01` and `l3_04` call a kernel without a backward pass and go on with layers that have one: the gradient of
    their input is silently zero. KernelBench does not check gradients.""",
)


def published(folder: Path) -> str:
    """Published kernels: the judge beside running them by hand."""
    record = load_json(folder, PUBLISHED)
    rows = record["rows"].values()
    same = sum((row["judge"] == "correct") == (row["hand"] == "right") for row in rows)
    header = ("kernel", "by hand", "judge", "device: hand", "judge", "call: hand", "judge", "limits")
    return section(
        "Published kernels on one H100",
        f"""
{len(rows)} kernels that others published for KernelBench and for Triton, unchanged; 32 are built with `load_inline`.
Speedups are over eager. By hand means `do_bench`, and the benchmark's tolerance of a hundredth
(`benchmarks/published.py`). In the column "limits", c is a kernel for contiguous inputs alone, f one for finite
inputs alone. Compilers kept the cores busy meanwhile, so the times of calls are inexact.
""",
        run_line(record, PUBLISHED, record["device"]),
        f"""
The verdicts are the same for {same} of {len(rows)}. Of the kernels that are right for both, the judge's speedup over
the one by hand is {_apart(record, "device")} on the device (geometric mean, and quartiles), {_apart(record, "call")} of
the call. Triton's kernels are replayed as a graph, without the gaps between launches that `do_bench` counts. Other
causes of the difference were not examined; the runs by hand were in part on another day.
""",
        table(header, [_published_row(row) for row in rows]),
        "Where the verdicts differ:",
        WHY,
    )


def _apart(record: Record, name: str) -> str:
    ratios = sorted(
        row[f"judge_{name}"] / row[f"hand_{name}"]
        for row in record["rows"].values()
        if row["judge"] == "correct" and row.get(f"judge_{name}")
    )
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{statistics.geometric_mean(ratios):.2f} ({low:.2f} to {high:.2f})"


def _published_row(row: Mapping[str, object]) -> list[str]:
    numbers = (row.get(key) for key in ("hand_device", "judge_device", "hand_call", "judge_call"))
    limits = row.get("limits")
    folder, _, file = str(row["kernel"]).partition("/")
    return [
        (file if folder.startswith("triton") else folder)[:LONGEST_NAME],
        str(row["hand"]),
        str(row["judge"]).replace("_", " "),
        *(ratio(number) if isinstance(number, float) else "" for number in numbers),
        ", ".join(sorted(str(limit)[0] for limit in limits)) if isinstance(limits, list) else "",
    ]
