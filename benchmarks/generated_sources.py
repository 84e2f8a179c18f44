"""Are the generated sources the same as before a change of the generator?

For every recipe in ``tests/histories``, and for every setting of one tunable on the same graphs in every language, the
source is generated anew and its sha256 printed. Write a file before the change, compare with it after.

    python benchmarks/generated_sources.py > before.txt
    python benchmarks/generated_sources.py --against before.txt

Exit status 1: a source differs, and its line says which.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from _shared import ROOT

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.tunables import complete
from kernelswarm.schemas import CandidateProposed, Config, Graph, HardwareFacts, ProblemFacts, SessionOpened, sha256

sys.path.insert(0, str(ROOT / "tests" / "support"))
import histories


def sources() -> Iterator[tuple[str, str]]:
    """Name and sha256 of every source; generated once where several nodes mean the same."""
    for history in histories.names():
        for session, envelopes in histories.read(history).items():
            events = [envelope.event() for envelope in envelopes]
            opened = next(event for event in events if isinstance(event, SessionOpened))
            graph = opened.facts.graph
            if graph is None:
                continue
            recipes = [event.recipe for event in events if isinstance(event, CandidateProposed) and event.recipe]
            for language in CODEGEN_BACKENDS:
                configs = [*(recipes if language == opened.language else []), *_single(language, graph, opened)]
                yield from _of_configs(f"{history} {session} {language}", language, opened, graph, configs)


def _single(language: str, graph: Graph, opened: SessionOpened) -> list[Config]:
    """The default and every config one tunable away from it."""
    tunables = CODEGEN_BACKENDS[language].tunables(graph, opened.hardware, backward=opened.facts.backward_graph)
    if tunables is None:
        return []
    default = complete({}, tunables)
    return [default, *({**default, name: value} for name, values in tunables.items() for value in values)]


def _of_configs(
    label: str, language: str, opened: SessionOpened, graph: Graph, configs: list[Config]
) -> Iterator[tuple[str, str]]:
    written: dict[str, str] = {}
    for config in configs:
        name = f"{label} {sorted(config.items())}"
        if name not in written:
            written[name] = sha256(_source(language, opened.facts, graph, config, opened.hardware))
            yield name, written[name]


def _source(language: str, facts: ProblemFacts, graph: Graph, config: Config, hardware: HardwareFacts) -> str:
    return CODEGEN_BACKENDS[language].source(facts, graph, config, hardware)


def main() -> None:
    """Print the hashes, or compare them with a file of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="file that an earlier run printed")
    arguments = parser.parse_args()
    lines = sorted({f"{digest} {name}" for name, digest in sources()})
    if arguments.against is None:
        print("\n".join(lines))
        return
    before = set(arguments.against.read_text(encoding="utf-8").splitlines())
    changed = sorted(set(lines) - before) + [f"no more: {line}" for line in sorted(before - set(lines))]
    print("\n".join([*changed, f"{len(lines)} sources, {len(changed)} lines differ"]))
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
