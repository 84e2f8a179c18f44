"""The sections of docs/results.md that were measured on an H100: kernels of others, and a first part of KernelBench."""

import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from _results_markdown import Record, bullets, load_csv, load_json, ratio, run_line, section, table

PUBLISHED = "published_h100.json"
LONGEST_NAME = 30
LEVELS = ("kernelbench_level2_h100.csv", "kernelbench_level3_h100.csv")

WHY = bullets(
    "Five are wrong on changed inputs or beyond the judge's bound, and within a hundredth on their own.",
    """`l2_22` computes the first of 128 rows and hands over memory that nobody wrote. By hand that memory still
    holds the reference's result.""",
    "`l1_33` leaves the running statistics out. `swiglu_claude_strict` returns one buffer for all calls.",
    """`l3_01` and `l3_04` call a kernel without a backward pass and go on with layers that have one: the gradient of
    their input is silently zero. KernelBench asks for none.""",
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
{len(rows)} kernels that others published for KernelBench and for Triton, unchanged: 32 build with `load_inline`.
Speedups are over eager. By hand means `do_bench`, and the benchmark's tolerance of a hundredth
(`benchmarks/published.py`). A kernel limited to contiguous inputs has a c, to finite ones an f.
Both ran on a machine whose cores were busy with compilers, so the calls are rough.
""",
        run_line(record, PUBLISHED, record["device"]),
        f"""
The verdicts are the same for {same} of {len(rows)}. Of the kernels that are right for both, the judge's speedup over
the one by hand is {_apart(record, "device")} on the device (geometric mean, and quartiles), {_apart(record, "call")} of
the call. Triton's kernels are replayed as a graph, without the gaps between launches that `do_bench` counts. What
else sets them apart was not examined: by hand was timed beside compilers, in part on another day.
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


def kernelbench(folder: Path) -> str:
    """A first part of levels 2 and 3, against eager and compile."""
    rows = [row for name in LEVELS for row in load_csv(folder, name)]
    timed = [row for row in rows if row["kernel_ms"]]
    causes = Counter(row["cause"] for row in rows if row["cause"] and not row["kernel_ms"])
    header = ("level", "problem", "eager ms", "compile ms", "ours ms", "over the better")
    files = ", ".join(f"`{name}`" for name in LEVELS)
    return section(
        "KernelBench levels 2 and 3 on H100s",
        f"""
A first part: {len(rows)} problems, four drafts each, twelve and more at once on two H100s in nine minutes. The time of
a call is the device's, by replays. The baselines are eager and `torch.compile`; max-autotune was left out. Run:
2026-11-25, commit 85ade3a, torch 2.11.0, triton 3.6.0; files {files}. Of level 3, `1` and `6` were measured
again at 1184eb7 plus c5fdcdb. `18`, `25`, `46` and `50` were at aaea7f8: three at once on each of two H100s with 16
cores each, at most four minutes each. `3` to `8`, `11` to `13`, `17` and `23` are of 2026-11-28, commit dd99824: four
at once on each of four H100s of one host with 64 cores.
""",
        table(header, [_row(row) for row in timed]),
        "Why the others have no time:",
        table(("cause", "problems"), [[cause, str(count)] for cause, count in causes.most_common()]),
        bullets(
            "A problem had two and a half minutes, too few for so many at once: a timeout says nothing of a kernel.",
            """`5` (AlexNet) was 1.27x (1.22 to 1.31) at aaea7f8: at dd99824 it stored what its pools read, a bias and a
            ReLU, which it no longer does. `5`, `6`, `7` and `12` stand at their first timing: their minutes ended
            before their finalists were timed again.""",
            """Four at once are too many for these: of 30 problems of level 3 that were begun at dd99824, 11 have a
            time, eight ended without one and 11 were under way after nine minutes. Large problems reserve most of a
            card, and small ones wait behind them; `31` ran out of memory.""",
            """`18` (SqueezeNet): its draft with channels last took 13.4 ms in its first timing, 0.95x, and ran
            out of memory when it was confirmed, so the row has another draft. Processes are fewer since, by memory.""",
            """`8`, `13`, `17` and `23`: some of eager's convolutions are exact in fp32 there, and what depends on them
            alone (running statistics) allows an error of 2e-6. Channels last, which `torch.compile` takes, would
            compute them in TF32, so no draft has it. With all in TF32 the drafts take 0.73, 3.30, 6.24 and 0.63 ms
            ([decision 0032](decisions/0032-what-passes-read-again-is-stored.md)); they may since
            [decision 0035](decisions/0035-tf32-where-switches-permit-it.md). `13` takes 0.76 ms with its pool before
            its convolution, where `torch.compile` takes 2.20 (a draft on an H200).""",
            """`46`: one draft was convicted of tampering beside work of a process that stood still. That has to end now
            before anybody else is timed.""",
            "With max-autotune as a third baseline one of eleven problems ended in 320 s: compiling it takes minutes.",
            "`43` ran out of memory beside its neighbours, although sessions reserve it.",
            "`44` holds its parameters in a lambda, which is not captured.",
            "`28` is refused: its answer hardly depends on its input.",
        ),
    )


def _row(row: Mapping[str, str]) -> list[str]:
    low, high = float(row["compile_low"]), float(row["compile_high"])
    over = f"{ratio(float(row['compile_speedup']))} ({low:.2f} to {high:.2f})"
    times = (f"{float(row[key]):.3f}" for key in ("eager_ms", "compile_ms", "kernel_ms"))
    return [row["subset"], " ".join(row["problem"].replace("_", " ").split()), *times, over]
