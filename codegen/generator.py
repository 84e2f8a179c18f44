"""The generator: proposes configs for a captured graph, and writes a candidate file for each.

Pure and deterministic: the answer depends on the arguments only, randomness comes from the plan's draw.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, zip_longest

import msgspec

from ..schemas import (
    Advice,
    AdviceAction,
    Config,
    Graph,
    HardwareFacts,
    Intent,
    NodePlanned,
    ProblemFacts,
    Skill,
    sha256,
)
from .backends import CODEGEN_BACKENDS, CodegenBackend
from .ir.error_bounds import ErrorBounds
from .ir.tunables import Tunables, complete
from .lowering.coverage import why_left, why_nothing
from .lowering.summary import summary_of
from .transfer import crossed

_LIMIT = 400
"""Configs looked at for one proposal before the generator says that it has nothing new."""


class Proposal(msgspec.Struct, frozen=True, tag=True):
    """A candidate to try."""

    source: str
    config: Config
    rationale: str
    skill: str = ""
    """Id of the skill it was taken from."""
    is_crossed: bool = False
    """Whether both parents' configs went into it."""


class Exhausted(msgspec.Struct, frozen=True, tag=True):
    """There is nothing new to propose."""

    reason: str


class Generator:
    """Knows nothing between calls."""

    def propose(
        self,
        facts: ProblemFacts,
        hardware: HardwareFacts,
        plan: NodePlanned,
        parent_config: Config | None,
        tried: Sequence[Config],
        skills: Sequence[Skill] = (),
        tried_sources: Collection[str] | None = None,
        second_config: Config | None = None,
        language: str = "cpp",
    ) -> Proposal | Exhausted:
        """The next candidate for ``plan``.

        Args:
            facts: with the captured graph.
            hardware: of the pool.
            plan: intent, advice and draw.
            parent_config: config of the node that is to be improved or repaired; None for a draft.
            tried: configs of every candidate of the session so far.
            skills: of earlier sessions on like problems, nearest first.
            tried_sources: hashes of the candidates' sources, if known; else they are generated again from ``tried``.
            second_config: config of a second parent, to be crossed with the first's.
            language: what the candidate is to be written in: a key of :data:`CODEGEN_BACKENDS`.
        """
        graph = facts.graph
        if graph is None or why_left(facts):
            return Exhausted(why_left(facts))
        backend = CODEGEN_BACKENDS[language]
        tunables = backend.tunables(graph, hardware, ErrorBounds.of_problem(facts), facts.backward_graph)
        if tunables is None:
            return Exhausted(why_nothing(graph))
        start = complete(parent_config or {}, tunables)
        seen = {_identity(complete(config, tunables)) for config in tried}
        sources = tried_sources
        crossings = [] if second_config is None else list(_crossings(plan, start, second_config, tunables))
        mixed = {_identity(complete(config, tunables)) for config, _, _ in crossings}
        ideas = _ideas(backend, plan, start, tunables, skills, parent_config is not None)
        for config, why, skill in chain(crossings, ideas):
            config = complete(config, tunables)
            if _identity(config) in seen:
                continue
            if len(seen) > _LIMIT:
                break
            seen.add(_identity(config))
            source = backend.source(facts, graph, config, hardware)
            sources = _sources(backend, facts, graph, tried, tunables, hardware) if sources is None else sources
            if sha256(source) in sources:
                continue
            why = f"{why}; {summary_of(source)}"
            return Proposal(source, config, why, skill, is_crossed=_identity(config) in mixed)
        return Exhausted("every sensible setting of the tunables has been tried")


Idea = tuple[Config, str, str]


def _identity(config: Config) -> str:
    return repr(sorted(config.items()))


def _sources(
    backend: CodegenBackend,
    facts: ProblemFacts,
    graph: Graph,
    tried: Sequence[Config],
    tunables: Tunables,
    hardware: HardwareFacts,
) -> set[str]:
    """Hashes of what was tried: two configs may well mean the same code."""
    unique = {_identity(complete(r, tunables)): complete(r, tunables) for r in tried}
    return {sha256(backend.source(facts, graph, config, hardware)) for config in unique.values()}


def _ideas(
    backend: CodegenBackend,
    plan: NodePlanned,
    start: Config,
    tunables: Tunables,
    skills: Sequence[Skill],
    has_parent: bool,
) -> Iterator[Idea]:
    """Configs in the order in which they are worth trying; ends after a random walk of the whole space."""
    rng = random.Random(plan.draw)
    default = complete({}, tunables)
    if plan.intent is Intent.draft or not has_parent:
        yield from _drafts(backend, default, tunables, skills)
    elif plan.intent is Intent.repair:
        yield from _advised(backend, plan.advice, start, tunables, rng)
        yield from _by_action(backend, AdviceAction.repair, start, tunables, "after a fault, without the suspect")
        yield default, "the plain default after a fault", ""
    else:
        yield from _advised(backend, plan.advice, start, tunables, rng)
        yield from _neighbours(start, tunables, rng)
    yield from _walk(start, tunables, rng)


def _crossings(plan: NodePlanned, start: Config, second: Config, tunables: Tunables) -> Iterator[Idea]:
    # Seeded apart from the other ideas: a plan without a second parent draws what it always drew.
    for config in crossed(start, second, tunables, random.Random(f"{plan.draw}/crossed")):
        yield config, f"{plan.parent} with {_changes(start, config) or 'nothing'} from {plan.second}", ""


def _drafts(backend: CodegenBackend, default: Config, tunables: Tunables, skills: Sequence[Skill]) -> Iterator[Idea]:
    """One that won on a like problem before every two of the usual ones: those of one problem mostly differ in what
    mattered least, and three of them left no room for what decides here."""
    learned = _learned(default, skills)
    for place, own in enumerate(_own_drafts(backend, default, tunables)):
        yield from islice(learned, 1 - place % 2)
        yield own
    yield from learned


def _learned(default: Config, skills: Sequence[Skill]) -> Iterator[Idea]:
    """The first recipes of all like problems, nearest first, then the second ones, and so on."""
    for recipes in zip_longest(*(skill.recipes for skill in skills)):
        for skill, config in zip(skills, recipes, strict=True):
            if config is not None:
                yield {**default, **config}, f"what won on a like problem: {skill.title}", skill.id


def _own_drafts(backend: CodegenBackend, default: Config, tunables: Tunables) -> Iterator[Idea]:
    yield default, f"the default: {backend.default}", ""
    for config in backend.starts:
        if config.keys() <= tunables.keys():
            yield {**default, **config}, f"the default with {_changes(default, config)}", ""
    for name in backend.drafts:
        for value in tunables.get(name, ())[1:]:
            yield {**default, name: value}, f"the default with {name}={value}", ""


def _advised(
    backend: CodegenBackend, advice: Sequence[Advice], start: Config, tunables: Tunables, rng: random.Random
) -> Iterator[Idea]:
    """Mutations that follow the advice, drawn by its weights; the most promising one of each first."""
    queues = [(a, backend.mutations(a.action, start, tunables)) for a in advice]
    while any(queue for _, queue in queues):
        live = [(a, queue) for a, queue in queues if queue]
        a, queue = rng.choices(live, [max(a.weight, 1e-6) for a, _ in live])[0]
        config = queue.pop(0)
        yield config, f"{_changes(start, config)}: {a.action.value}, because {a.reason}", ""


def _by_action(
    backend: CodegenBackend, action: AdviceAction, start: Config, tunables: Tunables, why: str
) -> Iterator[Idea]:
    for config in backend.mutations(action, start, tunables):
        yield config, f"{_changes(start, config)}: {why}", ""


def _neighbours(start: Config, tunables: Tunables, rng: random.Random) -> Iterator[Idea]:
    """Every config one tunable away, in random order."""
    steps = [(name, value) for name, values in tunables.items() for value in values if value != start[name]]
    rng.shuffle(steps)
    for name, value in steps:
        yield {**start, name: value}, f"{name}={value} instead of {start[name]}, all else as the parent", ""


def _walk(start: Config, tunables: Tunables, rng: random.Random) -> Iterator[Idea]:
    """Two and three tunables at once."""
    for _ in range(_LIMIT):
        names = rng.sample(sorted(tunables), min(len(tunables), rng.choice((2, 2, 3))))
        config = {**start, **{name: rng.choice(tunables[name]) for name in names}}
        yield config, f"{_changes(start, config) or 'the same tunables'} together", ""


def _changes(start: Config, config: Config) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items() if start.get(name) != value)
