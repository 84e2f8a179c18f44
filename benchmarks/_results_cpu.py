"""The sections of docs/results.md that were measured on processors: kernels, search, judge, log, seeds, fleet, demo."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from _results_markdown import Record, bullets, interval, load_json, ratio, rounded, run_line, section, table
from _shared import counted, geometric_mean

KERNELS = "kernels.json"


def kernels(folder: Path) -> str:
    """Kernels that searches of the shipped problems end with, on two cores."""
    record = load_json(folder, KERNELS)
    results = [record["entries"][name]["result"] for name in sorted(record["entries"])]
    over_eager = geometric_mean(each["times_ms"]["eager"] / each["times_ms"]["candidate"] for each in results)
    ratios = [counted(each) or {} for each in results]
    over_best = geometric_mean(each["median"] for each in ratios)
    header = ("problem", "eager", "compile", "max-autotune", "kernel", "over eager", "over the best baseline")
    wins = sum(each["win"] for each in results)
    touching = sum(each["win"] and ratio["low"] <= 1 for each, ratio in zip(results, ratios, strict=True))
    return section(
        "Kernels on two CPU cores",
        """
Searches of 40 candidates for each problem. Times are milliseconds. The best
baseline is the fastest of eager, `torch.compile` and max-autotune; its column has the 95 % interval.
A timed process keeps freed memory, so the ratios compare kernels, not page faults
([decision 0008](decisions/0008-what-is-freed-stays.md)).
""",
        run_line(record, KERNELS),
        table(header, [kernel_row(each) for each in results]),
        f"""
Geometric mean over {len(results)} problems: **{over_eager:.2f}x over eager, {over_best:.2f}x over the best baseline**;
{wins} wins, {touching or "none"} whose interval touches 1.
""",
        """
An earlier version had 3.5x and 2.2x on fourteen problems, on two pinned cores of a 16-core machine. Its last-level
cache holds the tensors; softmax and rmsnorm had no win there.
""",
    )


def kernel_row(result: Record) -> list[str]:
    """A line of the table of kernels."""
    times, speedup = result["times_ms"], counted(result) or {}
    best = f"{speedup['median']:.2f}x ({interval(speedup['low'], speedup['high'])})"
    return [
        result["problem"],
        *(f"{times[key]:.2f}" for key in ("eager", "compile", "max_autotune", "candidate")),
        f"{times['eager'] / times['candidate']:.2f}x",
        best if result["win"] else f"{best}, no win",
    ]


def search(folder: Path) -> str:
    """Candidates a minute, and the demo."""
    record, demo = load_json(folder, "search.json"), load_json(folder, "demo.json")
    labels = {"first": "first session, baselines compiled meanwhile", "later": "later session, baselines kept"}
    header = ("session", "candidates", "seconds", "a minute", "a minute, finalists included")
    return section(
        "Search and demo",
        f"Fully evaluated candidates a minute on {record['problem']}, one run of each:",
        run_line(record, "search.json"),
        table(header, [search_row(label, record[key]) for key, label in labels.items()]),
        "`make demo` in a fresh copy:",
        run_line(demo, "demo.json"),
        table(("total s", "set-up s", "search s", "candidates", "speedup"), [demo_row(demo)]),
        """
With finalists timed in ordinary processes `make demo` takes 94 s, 81 s of them the search (commit 068a823).
""",
    )


def search_row(label: str, session: Record) -> list[str]:
    """A line of the table of candidates a minute."""
    return [
        label,
        str(session["candidates"]),
        f"{session['search_seconds']:.0f}",
        f"{session['candidates_per_minute']:.1f}",
        f"{session['candidates_per_minute_of_session']:.1f}",
    ]


def demo_row(demo: Record) -> list[str]:
    """The demo's seconds and win."""
    speedup = demo["speedup"]
    bounds = interval(speedup["low"], speedup["high"])
    return [
        *(f"{demo[key]:.0f}" for key in ("total_seconds", "setup_seconds", "search_seconds")),
        str(demo["candidates"]),
        f"{ratio(speedup['median'])} ({bounds}) over {demo['against']}",
    ]


RETIMINGS = (("retiming.json", ""), ("retiming_h200.json", "NVIDIA H200"))
HONEST = (
    ("honest.json", "honest kernels convicted"),
    ("honest_intel.json", "the same by a newer judge, eight at a time beside other work"),
    ("honest_busy.json", "the same, one of two cores kept busy"),
)


def judge(folder: Path) -> str:
    """How often the judge agrees with itself."""
    agreement = load_json(folder, "agreement.json")
    honest = [(load_json(folder, name), name, question) for name, question in HONEST]
    timed = [(load_json(folder, name), name, device) for name, device in RETIMINGS]
    header = ("question", "cases", "result")
    winners = sum(not each["near_miss"] for each in agreement["kernels"])
    misses = len(agreement["kernels"]) - winners
    rows = [
        [
            f"same verdict on other draws: {winners} right and {misses} wrong kernels",
            f"{agreement['evaluations']:,} evaluations",
            f"{agreement['agree_of_1000']:,.0f} of 1,000",
        ],
        *(
            [question, f"{record['evaluations']:,} evaluations", f"{record['convicted_of_1000']:.0f} of 1,000"]
            for record, _, question in honest
        ),
        *(retiming_row(record, device) for record, _, device in timed),
    ]
    return section(
        "Does the judge agree with itself?",
        """
Re-timing: a kernel is timed in new runs, and each run's median should lie in the interval of every other
run. [Intervals](judge/intervals.md) has the details.
""",
        bullets(
            *(
                run_line(record, name, device)
                for record, name, device in (
                    (agreement, "agreement.json", ""),
                    *((record, name, "") for record, name, _ in honest),
                    *timed,
                )
            )
        ),
        table(header, rows),
    )


def retiming_row(record: Record, device: str) -> list[str]:
    """Pairs of runs that agree."""
    pairs = [each["runs"] * (each["runs"] - 1) for each in record["kernels"]]
    agreeing = sum(round(each["agree"] * pair) for each, pair in zip(record["kernels"], pairs, strict=True))
    machine = f"one {device}" if device else f"{record['machine']['cores']} cores"
    runs = record["kernels"][0]["runs"]
    return [
        f"re-timing on {machine}",
        f"{len(record['kernels'])} kernels, {runs} runs each",
        f"{agreeing} of {sum(pairs)} pairs, {record['agree_of_100']:.1f} of 100",
    ]


# benchmarks/hop.py writes no file.
BUS = """
The bus (`python benchmarks/hop.py`, no file): one hop from agent to agent (an event is stored, answered, and the
answer is stored and delivered) takes
0.82 ms, 1.45 ms at the 99th percentile; a request and its answer 0.44 ms. One process stores 42,600
events a second.
"""


def log(folder: Path) -> str:
    """The event log: writing, opening, questions, replay; and the bus."""
    record, questions = load_json(folder, "log.json"), load_json(folder, "questions.json")
    replay = load_json(folder, "replay.json")
    rate = record["per_second"]
    rows = [
        ["events of sessions, from publish to durable commit, during queries", rounded(rate["sessions"])],
        ["plain events, the same", rounded(rate["plain"])],
        ["a backlog of events", rounded(rate["drain"])],
        ["rows of plain `executemany`, for comparison", f"{round(record['executemany_per_second'], -1):,.0f}"],
    ]
    return section(
        "Log and bus",
        run_line(record, "log.json"),
        table(("written", "a second"), rows),
        "Medians of several runs were 10,200 to 13,500 events of sessions a second.",
        f"""
A log of {questions["events"]:,} events opens in {questions["open_for_writing_s"]:.2f} s. Each of the
{len(questions["questions"])} named questions takes {questions["slowest_ms"]:.0f} ms or less.
""",
        run_line(questions, "questions.json"),
        "Replay with a check of the hash chain, eight runs of each log; opening the log takes 25 ms more:",
        run_line(replay, "replay.json"),
        table(
            ("log", "events", "a second, best run", "median"),
            [replay_row(name, run) for name, run in replay["runs"].items()],
        ),
        BUS,
    )


def replay_row(name: str, run: Record) -> list[str]:
    """A line of the table of replays."""
    best, median = run["from_log"]["per_second"], run["median_per_second"]["from_log"]
    return [name, f"{run['events']:,}", rounded(best), rounded(median)]


SEEDED = (
    ("seed_long.json", "with-all", "long searches, a log of two"),
    ("seed_long.json", "with-same", "long searches, a log of one"),
    ("seed.json", "with-same", "mixed searches, a log of one"),
)


def seeds(folder: Path) -> str:
    """What seeds save."""
    header = ("searches", "pairs", "candidates, of the unseeded number", "best, of the unseeded one", "file")
    rows = [seed_row(label, load_json(folder, name)["summary"][arm], name) for name, arm, label in SEEDED]
    return section(
        "Seeds",
        """
How many candidates a seeded search needs to reach 95 % of the unseeded best speedup, and its own best, both relative
to the unseeded search. The goals: at most a third of the candidates, and at least 1.0. Six problems each, three
random seeds; the problems with long searches were chosen beforehand.
[seeding.md](seeding.md) has every problem, machine and commit.
""",
        table(header, rows),
    )


def seed_row(label: str, summary: Record, name: str) -> list[str]:
    """Geometric means of a set of pairs."""
    goal = summary["candidates_ratio"] <= 1 / 3 and summary["best_ratio"] >= 1
    verdict = label if goal else f"{label} (goal missed)"
    means = [f"{summary['candidates_ratio']:.2f}", f"{summary['best_ratio']:.3f}"]
    return [verdict, str(summary["pairs"]), *means, f"`{name}`"]


ROUNDS = {
    "calm": "calm",
    "flood": "flooded",
    "deaths": "a quarter of the workers killed",
    "queue": "one queue, steps of 0.1 s",
    "turns": "in turns, steps of 0.1 s",
}


def fleet(folder: Path) -> str:
    """A thousand simulated workers."""
    records = [(load_json(folder, name), name) for name in ("fleet.json", "fleet_two_cores.json")]
    parts = [part for record, name in records for part in (run_line(record, name), fleet_table(record["rounds"]))]
    return section(
        "A fleet of simulated workers",
        "[fleet.md](fleet.md) describes the rounds and what follows. A hop is the time from an event to its answer.",
        *parts,
    )


def fleet_table(rounds: Mapping[str, Record]) -> str:
    """Rounds of a fleet."""
    header = ("round", "workers", "events", "a second", "hop ms, median", "99 %", "delivered again", "lost")
    return table(header, [fleet_row(label, rounds[key]) for key, label in ROUNDS.items()])


def fleet_row(label: str, measured: Record) -> Sequence[str]:
    """A round of a fleet."""
    hop = measured["hop_ms"]
    return [
        label,
        f"{measured['workers']:,}",
        f"{measured['events']:,}",
        rounded(measured["events"] / measured["seconds"]),
        f"{hop['p50']:,.0f}",
        f"{hop['p99']:,.0f}",
        str(measured["redelivered"]),
        str(measured["lost"]),
    ]
