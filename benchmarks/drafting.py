"""How many operators a second does the generator draft, and does that hold when the graph grows?

Graphs of dense blocks, in which every layer reads all before it, at two sizes; CPU seconds of one process. Drafting is
what a search waits for with its first candidate: the tunables that matter, and the source of the default.

    python benchmarks/drafting.py [--layers 25,100] [--json]

A ratio near 1 says that drafting grows linearly with the graph.
"""

import argparse
import json
import sys
import time
from typing import Any

from _shared import ROOT, table

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.schemas import ProblemFacts, Work

sys.path.insert(0, str(ROOT / "tests" / "codegen"))
import graphs

REPEATS = 3
"""Drafts of each graph; the fastest counts, because the machine may be busy."""


def draft(language: str, layers: int) -> dict[str, Any]:
    """Draft one graph: operators, CPU seconds and characters of the source."""
    graph = graphs.dense(layers)
    facts = ProblemFacts(
        signature=("x",),
        shapes=(),
        graph=graph,
        work=Work(read_bytes=1, write_bytes=1, flops=1),
        dtype="float32",
        float64_oracle=True,
    )
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
    if arguments.json:
        print(json.dumps({"drafts": rows, "ratio": ratios}))
        return
    print(table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    for language, ratio in ratios.items():
        print(f"{language}: {ratio} times as many operators a second at {large} layers as at {small}")


if __name__ == "__main__":
    main()
