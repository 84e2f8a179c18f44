"""The sections of docs/results.md that were measured on a GPU: operators, published figures, searches, KernelBench."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _results_markdown import Record, bullets, interval, load_csv, load_json, ratio, run_line, section, table
from _shared import counted

OPERATORS = "gpu_kernels_published_shapes.json"
SEARCHES = "kernels_h200.json"
RATES, RATES_BESIDE = "gpu_search.json", "gpu_search_beside.json"
LEVELS = {1: "kernelbench_level1.csv", 2: "kernelbench_level2.csv"}
GOALS = {1: 60, 2: 70}
"""Of 100 problems, how many should be faster than eager."""

BASELINES = ("eager", "compile", "max_autotune")
COPY = "copy"

LABELS = {
    "rmsnorm": "RMSNorm 8192 x 8192",
    "rmsnorm_spelled": "RMSNorm, unfused",
    "softmax": "softmax 8192 x 8192",
    "layernorm": "LayerNorm 8192 x 4096",
    "cross_entropy": "cross entropy 8192 x 32768",
    "conv1d": "conv1d (2048, 96, 96, 200)",
    "optfm_24": "OptFM, N = 24",
    "optfm_40": "OptFM, N = 40",
    "optfm_48": "OptFM, N = 48",
    "pffn_1024_200_256": "PFFN, (N, D) = (200, 256)",
    "pffn_1024_200_192": "PFFN, (N, D) = (200, 192)",
    "pffn_1024_150_96": "PFFN, (N, D) = (150, 96)",
}
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class Published:
    """A speedup over eager that others published."""

    label: str
    operators: tuple[str, ...]
    speedup: str
    source: str
    over: str = "eager"
    """Which of the samples the speedup here is over."""


# As the README cited them: KernelEvolve (Meta, 2025) on an H100 for its case studies conv1d, OptFM and PFFN
# (problems/conv1d_half.py, optfm_half.py and pffn_half.py name the paper); the others are what another system
# reports of itself, on an H100.
PUBLISHED = (
    Published("RMSNorm, unfused", ("rmsnorm_spelled",), "5.29x", "another system, H100"),
    Published("softmax", ("softmax",), "2.82x", "another system, H100"),
    Published("LayerNorm", ("layernorm",), "1.25x", "another system, H100"),
    Published("cross entropy", ("cross_entropy",), "2.21x", "another system, H100"),
    Published("conv1d", ("conv1d",), "2.30x", "KernelEvolve, H100"),
    Published("conv1d, over it as conv2d", ("conv1d",), "1.62x", "KernelEvolve, H100", "conv1d_as_conv2d"),
    Published("OptFM, N = 24 / 40 / 48", ("optfm_24", "optfm_40", "optfm_48"), "3.6x", "KernelEvolve, H100"),
    Published(
        "PFFN, (N, D) as above",
        ("pffn_1024_200_256", "pffn_1024_200_192", "pffn_1024_150_96"),
        "2.0x",
        "KernelEvolve, H100",
    ),
)


@dataclass(frozen=True)
class Timing:
    """Median milliseconds of an operator's implementations."""

    medians: Mapping[str, float]
    draft: float
    best_baseline: float


def timing(entry: Record) -> Timing:
    """Medians of an entry, its fastest draft, and its fastest baseline."""
    medians = {name: statistics.median(samples) for name, samples in entry["samples_ms"].items()}
    drafts = [medians[name] for name in medians if name in entry["candidates"]]
    return Timing(medians, min(drafts), min(medians[name] for name in BASELINES if name in medians))


def operator_row(entry: Record, record: Record) -> list[str]:
    """A line of the table of operators."""
    times = timing(entry)
    peak = entry.get("of", record)["copy_gbps"]
    bandwidth = 100 * entry["bytes"] / times.draft / 1e6 / peak
    memory_bound = not entry["flops"]
    copy = f"{100 * times.medians[COPY] / times.draft:.0f}" if memory_bound and COPY in times.medians else ""
    return [
        LABELS[entry["operator"]],
        DTYPES[entry["dtype"]],
        *(f"{times.medians[name]:.3f}" for name in BASELINES),
        f"{times.draft:.3f}",
        ratio(times.medians["eager"] / times.draft),
        ratio(times.best_baseline / times.draft),
        f"{bandwidth:.1f}" if memory_bound else "",
        copy,
    ]


def other_runs(entries: Sequence[Record]) -> str:
    """Entries of other runs than the file's own, with date and commit."""
    runs = Counter((entry["of"]["commit"], entry["of"]["date"][:10]) for entry in entries if "of" in entry)
    return " ".join(
        f"Of a run of {day}, commit {commit}: {', '.join(run_labels(entries, commit))}." for commit, day in runs
    )


def run_labels(entries: Sequence[Record], commit: str) -> list[str]:
    """The operators of another run, each once."""
    return list(dict.fromkeys(LABELS[e["operator"]] for e in entries if e.get("of", {}).get("commit") == commit))


def operators(folder: Path) -> str:
    """The generator's drafts on one H200, at published shapes."""
    record = load_json(folder, OPERATORS)
    header = ("operator", "", "eager", "compile", "max-autotune", "draft", "over eager", "over best")
    header = (*header, "% peak", "% copy")
    return section(
        "Operators on one H200",
        """
The generator's first drafts, without a search: four for each operator, of which the fastest counts. Times are
milliseconds. Eager, `torch.compile` and max-autotune are timed beside them; the best of the three
counts. Calls were timed between device events with a flushed cache, not replayed as a CUDA graph ([decision
0020](decisions/0020-calls-on-a-gpu-are-replayed.md)). That adds some 3 us to a call.
""",
        f"{run_line(record, OPERATORS, record['device'])} {other_runs(record['entries'])}",
        table(header, [operator_row(entry, record) for entry in record["entries"]]),
        f"""
"% peak" is the share of the measured copy bandwidth ({record["copy_gbps"] / 1000:.2f} TB/s, 4 GB).
"% copy" is the time of a plain copy of as many bytes, in percent of the draft's. Such a short copy does not reach the
peak either.
""",
        "### Beside published figures",
        """
Speedups over eager: published ones, measured on an H100, and those of the table above ("here"), in its order of
dtypes and shapes. The columns compare speedups, not times.
""",
        published_table(record["entries"]),
        "Goals that were missed:",
        OPERATORS_MISSED,
        CROSS_ENTROPY_SINCE,
        CONV1D_ELSEWHERE,
    )


OPERATORS_MISSED = bullets(
    """The published ratio for RMSNorm. `F.rms_norm` is one kernel in eager and takes 1.6 times as long as a copy,
    so no kernel can be more than 1.6x as fast. Unfused (written as separate operators), RMSNorm meets the
    published ratio in bf16 and not in fp32.""",
    "The published ratio for softmax in fp32.",
    """92 % of the measured copy bandwidth for softmax, LayerNorm and cross entropy in bf16 (91.6, 89.0 and 89.9 %).
    By the pool's own measurement of a copy (2 GB, 4.23 TB/s) they reach 92.7, 90.0 and 92.3 %.
    LayerNorm takes as long as a plain copy of its 134 MB.""",
)
CROSS_ENTROPY_SINCE = """
Later drafts of cross entropy have other block sizes: 0.1374 and 0.2527 ms in a sweep the same day, 91.3 and 99.2 %.
"""
CONV1D_ELSEWHERE = """
In eager, conv1d written as conv2d over images of one row is as fast as conv1d (0.340 ms), and slower with conversions
to channels last and back (0.515 ms). On data that stay in channels last, cuDNN alone takes 0.174 ms.
"""


def published_table(entries: Sequence[Record]) -> str:
    """Published speedups beside those of the entries."""
    header = ("operator", "published", "by", "here")
    return table(header, [published_row(line, entries) for line in PUBLISHED])


def published_row(line: Published, entries: Sequence[Record]) -> list[str]:
    """A published speedup, and those of its operators here."""
    times = [timing(entry) for name in line.operators for entry in entries if entry["operator"] == name]
    over = " / ".join(ratio(each.medians[line.over] / each.draft) for each in times)
    return [line.label, line.speedup, line.source, over]


def searches(folder: Path) -> str:
    """Whole searches on one H200, and how fast they judge."""
    record, rates = load_json(folder, SEARCHES), load_json(folder, RATES)
    names = sorted(record["entries"])
    header = ("problem", "eager ms", "compile ms", "max-autotune ms", "kernel ms", "over eager", "over the best")
    rate_header = ("problem", "candidates", "seconds", "a minute", "a minute, finalists included")
    return section(
        "Searches on one H200",
        "Measured with an older version (calls between device events), 12 candidates each.",
        run_line(record, SEARCHES, "NVIDIA H200"),
        table(header, [search_row(name, record["entries"][name]["result"]) for name in names]),
        "Candidates a minute, from the first plan on (goal: 40):",
        run_line(rates, RATES, "NVIDIA H200"),
        table(rate_header, [rate_row(name, rates["problems"][name]) for name in sorted(rates["problems"])]),
        "With three other busy GPUs on the host it was 30.0 a minute (commit 12f6e96).",
        rates_beside(folder),
    )


def rates_beside(folder: Path) -> str:
    """The last commit that was held against an older one, as a sentence."""
    record = load_json(folder, RATES_BESIDE)
    pairs = list(zip(record["runs"][::2], record["runs"][1::2], strict=True))
    latest, older = pairs[-1][0]["commit"], pairs[-1][0]["beside"]
    rates = [tuple(side["candidates_per_minute"] for side in pair) for pair in pairs if pair[0]["commit"] == latest]
    shares = [ours / theirs for ours, theirs in rates]
    what = f"`{RATES_BESIDE}`, {record['date']}, {record['problem']} in float32"
    texts = " and ".join(f"{ours:.1f} beside {theirs:.1f}" for ours, theirs in rates)
    return (
        f"Commit {latest} beside {older}, at the same time on one H200 each, exchanged: {texts} a minute, "
        f"{ratio(statistics.geometric_mean(shares))} ({what})."
    )


def search_row(name: str, result: Mapping[str, Any]) -> list[str]:
    """A line of the table of whole searches."""
    times, speedup = result["times_ms"], counted(result) or {}
    return [
        name,
        *(f"{times[key]:.3f}" for key in (*BASELINES, "candidate")),
        ratio(times["eager"] / times["candidate"]),
        f"{ratio(speedup['median'])} ({interval(speedup['low'], speedup['high'])})",
    ]


def rate_row(name: str, problem: Record) -> list[str]:
    """A line of the table of candidates a minute."""
    return [
        name,
        str(problem["candidates"]),
        f"{problem['search_seconds']:.0f}",
        f"{problem['candidates_per_minute']:.1f}",
        f"{problem['candidates_per_minute_of_session']:.1f}",
    ]


def kernelbench(folder: Path) -> str:
    """Both levels of KernelBench on one H200."""
    levels = {level: load_csv(folder, name) for level, name in LEVELS.items()}
    header = ("", "interval above 1", "above 1.5", "above 2", "goal")
    slower = [slower_row(row) for rows in levels.values() for row in rows if row["cause"] == "slower than eager"]
    return section(
        "KernelBench on one H200",
        """
Four drafts a problem, against eager at matched precision ([kernelbench.md](kernelbench.md)). A problem counts in a
column if the low end of its interval lies above that bound. All 200 problems were run, without a crash.
""",
        kernelbench_line(levels),
        table(header, [level_row(level, rows) for level, rows in levels.items()]),
        "Problems that are no win, by cause:",
        causes_table(levels),
        KERNELBENCH_MISSED,
        "Slower than eager:",
        table(("level", "problem", "over eager"), slower),
    )


# The CSV files have no commit: these are the README's.
KERNELBENCH_COMMITS = """Commits b7c640c to dfc9ef1. Level 2's no. 73 ran again at bdefef3, level 1's nos. 76 and
87, which had run out of memory before, at dfc9ef1."""

KERNELBENCH_MISSED = """
Level 1, as fast as eager: eleven elementwise operators and two reductions, for which eager reaches the memory's
bandwidth, and seven convolutions. No candidate written: BatchNorm, which the generator left to PyTorch. Level 2,
refused: six problems whose answer is a constant ("decides nothing"), and one that draws random numbers.
"""


def kernelbench_line(levels: Mapping[int, Sequence[Mapping[str, str]]]) -> str:
    """Dates, device and versions of the rows."""
    rows = [row for level in levels.values() for row in level]
    days = sorted({row["at"][:10] for row in rows})
    devices, versions = sorted({row["device"] for row in rows}), sorted({row["versions"] for row in rows})
    files = ", ".join(f"`{name}`" for name in LEVELS.values())
    return (
        f"Run: {days[0]} to {days[-1]}, {'; '.join(devices)}; files {files}; {'; '.join(versions)}. "
        f"{KERNELBENCH_COMMITS}"
    )


def level_row(level: int, rows: Sequence[Mapping[str, str]]) -> list[str]:
    """How many problems of a level lie above each bound."""
    lows = [float(row["eager_low"] or 0) for row in rows]
    counts = [str(sum(low > bound for low in lows)) for bound in (1, 1.5, 2)]
    return [f"level {level}, {len(rows)} problems", *counts, f"{GOALS[level]} above 1"]


def causes_table(levels: Mapping[int, Sequence[Mapping[str, str]]]) -> str:
    """Misses by cause."""
    counts = {level: Counter(row["cause"] for row in rows if row["cause"]) for level, rows in levels.items()}
    causes = sorted({cause for count in counts.values() for cause in count})
    rows = [[cause, *(str(counts[level][cause]) for level in levels)] for cause in causes]
    return table(("cause", *(f"level {level}" for level in levels)), rows)


def slower_row(row: Mapping[str, str]) -> list[str]:
    """A problem whose best kernel is slower than eager."""
    level = row.get("subset") or row["level"]
    return [level, " ".join(row["problem"].replace("_", " ").split()), ratio(float(row["eager_speedup"]))]
