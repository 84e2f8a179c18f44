"""The section of docs/results.md on outside authors: their best kernels beside the generator's, by pool."""

from pathlib import Path

from _results_markdown import Record, load_json, ratio, run_line, section, table
from _shared import counted

AUTHORS = ("generator", "outside")
FILES = {
    "authors.json": """
The last three problems are of 2026-11-28, commit f3760a6: three coding agents at once, which had the brief alone, on
two busy cores. One file was refused, because it had been judged before.
""",
    "authors_shipped.json": """
Six problems are those of `problems/`; `lenet5` is KernelBench's level 3 number 4, `mingpt_new_gelu` its level 1 number
88. Two language models had docs/agents.md, the brief and a shell, four problems each, one after the other; the
generator had a third of each session's twelve nodes. Minutes have the confirmation of finalists in them, beside the
other author's session. Both kernels of `lenet5` and `mingpt_new_gelu` were evaluated twice, the others once. The
author's `mingpt_new_gelu` gives NaN at infinity, which no case showed at that size then
([decision 0040](decisions/0040-large-calls-meet-infinities-too.md)).
""",
    "authors_h200.json": """
Five language models had the brief and the documents that it names, and no GPU; a program passed their tasks, files
and verdicts on. There were two hand-ins a problem, in ten sessions at once that were killed and resumed twice; minutes
are those sessions'. Both authors' best kernels were then evaluated in turns, two evaluations each; max-autotune was
left out. Two of the four wrong hand-ins were right kernels, refused by an error of the judge that was repaired
before the second hand-in ([decision 0037](decisions/0037-replayed-calls-count-as-they-are-apart.md)); one mixed CUDA
C++ with Triton, one had wrong numbers. The generator's drafts are those of commit 0cad157.
""",
    "authors_h100.json": """
The kernels of commit 9eb13b5 were written without a GPU, from `agents.md` and
[triton-candidates.md](triton-candidates.md). Two were handed in for each problem, and judged in one session with the
generator's. Those of `block` were wrong on strided biases at first, were corrected once, and were judged on an H200.
""",
}
"""What a pool's rows are kept in, and how they were made otherwise."""
HEADER = ("problem", "generator", "outside author", "together over generator", "hand-ins", "wrong", "minutes")


def authors(folder: Path) -> str:
    """A table for each pool."""
    parts: list[str] = []
    for name, note in FILES.items():
        if (folder / name).is_file():
            record = load_json(folder, name)
            parts += [
                run_line(record, name, record.get("device", "")),
                table(HEADER, _rows(record)),
                _summary(record) + note,
            ]
    return section(
        "Outside authors beside the generator",
        """
Authors outside the project had [agents.md](agents.md) as their only instruction.
They claimed tasks, handed in at most eight kernels a
problem, and read the verdicts. The best kernel of each author was then evaluated in turns, against eager,
`torch.compile` and max-autotune (`benchmarks/authors.py`). A speedup is the geometric mean of the evaluations, over
the best baseline; a kernel that is slower or wrong counts as 1. "Together" takes the faster of both kernels. Minutes
are those of the whole session. Cells are empty where the session was not kept (`tests/histories/`).
""",
        *parts,
    )


def _rows(record: Record) -> list[list[str]]:
    return [
        [
            name,
            *(ratio(row[f"{author}_speedup"]) for author in AUTHORS),
            ratio(_together(row)),
            *(str(row.get(key, "")) for key in ("hand_ins", "wrong_hand_ins", "minutes")),
        ]
        for name, row in record["rows"].items()
    ]


def _summary(record: Record) -> str:
    rows = [row for row in record["rows"].values() if "hand_ins" in row]
    hand_ins, wrong = (sum(row[key] for row in rows) for key in ("hand_ins", "wrong_hand_ins"))
    return f"""
Together they are {ratio(record["together_over_generator"])} the generator alone (geometric mean of
{len(record["rows"])} problems). On {record["outside_wins_largely"]} of them the outside author's kernel is at least 1.3
times as fast as the generator's, or as PyTorch's where that is faster. Of {hand_ins} hand-ins that are known, {wrong}
{"was" if wrong == 1 else "were"} wrong.
"""


def _together(row: Record) -> float:
    own = float(row["generator_speedup"])
    return max(own, float(row["outside_speedup"])) / own


BARE = "bare.json"
WAYS = ("bare", "through")


def bare(folder: Path) -> str:
    """One author with a timer of its own, and through sessions."""
    record = load_json(folder, BARE)
    rows = record["rows"]
    wins = {way: sum(_is_win(row[way]) for row in rows.values()) for way in WAYS}
    return section(
        "The same author, bare and through Kernelswarm",
        """
A language model wrote a kernel for each of six problems with the problem file and a plain timer
(`benchmarks/_bare_timer.py`: one seed, a tolerance of a hundredth, the mean of calls against eager's). The column
"claim" is what that timer prints. The same model took the problems' tasks in other conversations, with the brief,
documents and verdicts: 36 hand-ins, three of them wrong. None of them had worked on this project. All
kernels were judged like any other (`benchmarks/bare.py`).
""",
        run_line(record, BARE),
        table(
            ("problem", "claim, over eager", "bare", "through Kernelswarm"),
            [[name, _claim(row), *(_judged(row[way]) for way in WAYS)] for name, row in rows.items()],
        ),
        f"""
Verified wins: {wins["bare"]} bare, {wins["through"]} through Kernelswarm. Speedups are in ordinary processes, over the
fastest of eager, `torch.compile` and max-autotune. The bare `layernorm_residual` loses digits on heavy-tailed inputs,
which the author's timer did not see. Through Kernelswarm it had been 2.34x (1.77 to 3.09) when its session confirmed
it; here its interval is 0.29 to 1.50. `masked_softmax`, `rmsnorm` and `swiglu` give out the memory of released outputs
again, as the generator's files do, which saves page faults that baselines pay in ordinary processes. By the judge,
whose processes keep freed memory, they are {_by_judge(rows, "masked_softmax", "rmsnorm", "swiglu")}.

An earlier author, who had worked on this project and compiled with `-Ofast`, had no win bare and one through
Kernelswarm.
""",
    )


def _by_judge(rows: Record, *names: str) -> str:
    ratios = [ratio(rows[name]["through"]["speedup"]["median"]) for name in names]
    return f"{', '.join(ratios[:-1])} and {ratios[-1]}"


def overhead(folder: Path) -> str:
    """What a model's call costs beyond the model."""
    record = load_json(folder, "model_overhead.json")
    rows = [
        [
            row["format"],
            "with tools, events published" if row["tools"] else "without tools",
            *(f"{row[key]:.1f}" for key in ("overhead_ms", "slowest_ms")),
        ]
        for row in record["rows"]
    ]
    return section(
        "A model's call beyond the model",
        f"""
Prompt, client, AutoGen, tools and events of a call, in the median of {record["rows"][0]["nodes"]} nodes, against a
server on loopback that answers at once; its own time is taken off. The goal is {record["goal_ms"]:.0f} ms.
""",
        run_line(record, "model_overhead.json"),
        table(("wire format", "a call", "ms beyond the model", "ms, slowest node"), rows),
    )


def _claim(row: Record) -> str:
    claimed = row["claimed"]
    return ratio(claimed["eager_ms"] / claimed["kernel_ms"]) if claimed["is_right"] else "wrong"


def _is_win(evaluation: Record) -> bool:
    speedup = counted(evaluation)
    return evaluation["verdict"] == "correct" and speedup is not None and speedup["low"] > 1


def _judged(evaluation: Record) -> str:
    speedup = counted(evaluation)
    if evaluation["verdict"] != "correct" or speedup is None:
        return str(evaluation["verdict"]).replace("_", " ")
    return ratio(speedup["median"]) + ("" if _is_win(evaluation) else ", no win")
