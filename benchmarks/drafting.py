"""How many operators a second does the generator draft, and does that hold when the graph grows?

Graphs of dense blocks, in which every layer reads all before it, at two sizes; CPU seconds of one process. Drafting is
what a search waits for with its first candidate: the tunables that matter, and the source of the default.

    python benchmarks/drafting.py [--layers 25,100] [--json]

A ratio near 1 says that drafting grows linearly with the graph. Then the larger graph is drafted for three sessions at
once, in the supervisor's threads and in processes of their own: how long the event loop is kept from its work.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from _shared import ROOT, table

from kernelswarm.agents.synthesizer.backend import Request
from kernelswarm.agents.synthesizer.drafting import Drafters
from kernelswarm.codegen import Generator
from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned, ProblemFacts, Work

sys.path.insert(0, str(ROOT / "tests" / "codegen"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import graphs

import given

REPEATS = 3
"""Drafts of each graph; the fastest counts, because the machine may be busy."""
SESSIONS = 3
TURN_SECONDS = 0.002
"""Between two looks of the event loop at how late it is."""


def facts_of(layers: int) -> ProblemFacts:
    """A problem of so many dense layers."""
    return ProblemFacts(
        signature=("x",),
        shapes=(),
        graph=graphs.dense(layers),
        work=Work(read_bytes=1, write_bytes=1, flops=1),
        dtype="float32",
        float64_oracle=True,
    )


def draft(language: str, layers: int) -> dict[str, Any]:
    """Draft one graph: operators, CPU seconds and characters of the source."""
    facts = facts_of(layers)
    graph = facts.graph
    assert graph is not None
    seconds, source = [], ""
    for _ in range(REPEATS):
        start = time.process_time()
        CODEGEN_BACKENDS[language].tunables(graph, graphs.HARDWARE)
        source = CODEGEN_BACKENDS[language].source(facts, graph, {}, graphs.HARDWARE)
        seconds.append(time.process_time() - start)
    operators = sum(node.op == "call" for node in graph.nodes)
    return {
        "language": language,
        "operators": operators,
        "cpu_seconds": round(min(seconds), 3),
        "operators_per_second": round(operators / min(seconds)),
        "characters": len(source),
    }


async def lateness(draft: Callable[[Request], Awaitable[Any]], layers: int) -> dict[str, float]:
    """Milliseconds by which a turn of the event loop is late while several sessions' drafts are written."""
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    request = Request(
        problem=given.problem(),
        facts=facts_of(layers),
        pool=given.pool(),
        hardware=graphs.HARDWARE,
        plan=plan,
        node="n001",
        language="cpp",
    )
    began = last = time.monotonic()
    drafts = asyncio.gather(*(draft(request) for _ in range(SESSIONS)))
    late: list[float] = []
    while not drafts.done():
        await asyncio.sleep(TURN_SECONDS)
        now = time.monotonic()
        late.append(1000 * (now - last - TURN_SECONDS))
        last = now
    await drafts
    seconds = time.monotonic() - began
    return {"seconds": round(seconds, 2), "mean_ms": round(sum(late) / len(late), 2), "most_ms": round(max(late), 1)}


def in_this_process(request: Request) -> Any:
    """The same draft by a thread."""
    return Generator().propose(request.facts, request.hardware, request.plan, None, (), language=request.language)


async def beside_the_loop(layers: int) -> dict[str, dict[str, float]]:
    """The same drafts in threads, and in processes."""
    drafters = Drafters()
    try:
        return {
            "threads": await lateness(lambda request: asyncio.to_thread(in_this_process, request), layers),
            "processes": await lateness(drafters.draft, layers),
        }
    finally:
        await drafters.close()


def main() -> None:
    """Draft in every language at every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="25,100", help="two sizes, in layers of seven operators")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    arguments = parser.parse_args()
    small, large = (int(size) for size in arguments.layers.split(","))
    rows = [draft(language, layers) for language in CODEGEN_BACKENDS for layers in (small, large)]
    pairs = zip(rows[::2], rows[1::2], strict=True)
    ratios = {a["language"]: round(b["operators_per_second"] / a["operators_per_second"], 2) for a, b in pairs}
    loop = asyncio.run(beside_the_loop(large))
    if arguments.json:
        print(json.dumps({"drafts": rows, "ratio": ratios, "loop": loop}))
        return
    print(table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    for language, ratio in ratios.items():
        print(f"{language}: {ratio} times as many operators a second at {large} layers as at {small}")
    ratio = loop["threads"]["mean_ms"] / max(loop["processes"]["mean_ms"], 0.01)
    print(table(["drafts in", *loop["threads"]], [[name, *map(str, row.values())] for name, row in loop.items()]))
    print(f"a turn of the event loop is {ratio:.0f} times as late beside threads as beside processes")


if __name__ == "__main__":
    main()
