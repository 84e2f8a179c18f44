"""The playbook: proposes recipes for a captured graph, and writes the candidates that they stand for.

Pure and deterministic: the answer depends on the arguments only, randomness comes from the plan's draw.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..schemas import (
    Advice,
    AdviceAction,
    Graph,
    HardwareFacts,
    Intent,
    NodePlanned,
    ProblemFacts,
    Recipe,
    Skill,
    sha256,
)
from .backends import WRITERS, Writer
from .cpp.features import error_allowed
from .ir.tunables import Tunables, complete
from .lowering.coverage import why_left, why_nothing
from .transfer import crossed

_LIMIT = 400
"""Recipes looked at for one proposal before the playbook says that it has nothing new."""


@dataclass(frozen=True)
class Proposal:
    """A candidate to try."""

    source: str
    recipe: Recipe
    rationale: str
    skill: str = ""
    """Id of the skill it was taken from."""
    is_crossed: bool = False
    """Whether both parents' recipes went into it."""


@dataclass(frozen=True)
class Exhausted:
    """There is nothing new to propose."""

    reason: str


class Playbook:
    """Knows nothing between calls."""

    def propose(
        self,
        facts: ProblemFacts,
        hardware: HardwareFacts,
        plan: NodePlanned,
        parent_recipe: Recipe | None,
        tried: Sequence[Recipe],
        skills: Sequence[Skill] = (),
        tried_sources: Collection[str] | None = None,
        second_recipe: Recipe | None = None,
        language: str = "cpp",
    ) -> Proposal | Exhausted:
        """The next candidate for ``plan``.

        Args:
            facts: with the captured graph.
            hardware: of the pool.
            plan: intent, advice and draw.
            parent_recipe: recipe of the node that is to be improved or repaired; None for a draft.
            tried: recipes of every candidate of the session so far.
            skills: of earlier sessions on like problems, nearest first.
            tried_sources: hashes of the candidates' sources, if known; else they are generated again from ``tried``.
            second_recipe: recipe of a second parent, to be crossed with the first's.
            language: what the candidate is to be written in: a key of :data:`WRITERS`.
        """
        graph = facts.graph
        if graph is None or why_left(facts):
            return Exhausted(why_left(facts))
        writer = WRITERS[language]
        tunables = writer.tunables(graph, hardware, error_allowed(facts), facts.backward_graph)
        if tunables is None:
            return Exhausted(why_nothing(graph))
        start = complete(parent_recipe or {}, tunables)
        seen = {_identity(complete(recipe, tunables)) for recipe in tried}
        sources = tried_sources
        crossings = [] if second_recipe is None else list(_crossings(plan, start, second_recipe, tunables))
        mixed = {_identity(complete(recipe, tunables)) for recipe, _, _ in crossings}
        ideas = _ideas(writer, plan, start, tunables, skills, parent_recipe is not None)
        for recipe, why, skill in chain(crossings, ideas):
            recipe = complete(recipe, tunables)
            if _identity(recipe) in seen:
                continue
            if len(seen) > _LIMIT:
                break
            seen.add(_identity(recipe))
            source = writer.source(facts, graph, recipe)
            sources = _sources(writer, facts, graph, tried, tunables) if sources is None else sources
            if sha256(source) in sources:
                continue
            return Proposal(source, recipe, why, skill, is_crossed=_identity(recipe) in mixed)
        return Exhausted("every sensible setting of the tunables has been tried")


Idea = tuple[Recipe, str, str]


def _identity(recipe: Recipe) -> str:
    return repr(sorted(recipe.items()))


def _sources(
    writer: Writer, facts: ProblemFacts, graph: Graph, tried: Sequence[Recipe], tunables: Tunables
) -> set[str]:
    """Hashes of what was tried: two recipes may well mean the same code."""
    unique = {_identity(complete(r, tunables)): complete(r, tunables) for r in tried}
    return {sha256(writer.source(facts, graph, recipe)) for recipe in unique.values()}


def _ideas(
    writer: Writer, plan: NodePlanned, start: Recipe, tunables: Tunables, skills: Sequence[Skill], has_parent: bool
) -> Iterator[Idea]:
    """Recipes in the order in which they are worth trying; ends after a random walk of the whole space."""
    rng = random.Random(plan.draw)
    default = complete({}, tunables)
    if plan.intent is Intent.draft or not has_parent:
        yield from _drafts(writer, default, tunables, skills)
    elif plan.intent is Intent.repair:
        yield from _advised(writer, plan.advice, start, tunables, rng)
        yield from _by_action(writer, AdviceAction.repair, start, tunables, "after a fault, without the suspect")
        yield default, "the plain default after a fault", ""
    else:
        yield from _advised(writer, plan.advice, start, tunables, rng)
        yield from _neighbours(start, tunables, rng)
    yield from _walk(start, tunables, rng)


def _crossings(plan: NodePlanned, start: Recipe, second: Recipe, tunables: Tunables) -> Iterator[Idea]:
    # Seeded apart from the other ideas: a plan without a second parent draws what it always drew.
    for recipe in crossed(start, second, tunables, random.Random(f"{plan.draw}/crossed")):
        yield recipe, f"{plan.parent} with {_changes(start, recipe) or 'nothing'} from {plan.second}", ""


def _drafts(writer: Writer, default: Recipe, tunables: Tunables, skills: Sequence[Skill]) -> Iterator[Idea]:
    for skill in skills:
        for recipe in skill.recipes:
            yield {**default, **recipe}, f"what won on a like problem: {skill.title}", skill.id
    yield default, f"the default: {writer.default}", ""
    for recipe in writer.starts:
        if recipe.keys() <= tunables.keys():
            yield {**default, **recipe}, f"the default with {_changes(default, recipe)}", ""
    for name in writer.drafts:
        for value in tunables.get(name, ())[1:]:
            yield {**default, name: value}, f"the default with {name}={value}", ""


def _advised(
    writer: Writer, advice: Sequence[Advice], start: Recipe, tunables: Tunables, rng: random.Random
) -> Iterator[Idea]:
    """Mutations that follow the advice, drawn by its weights; the most promising move of each first."""
    queues = [(a, writer.moves(a.action, start, tunables)) for a in advice]
    while any(queue for _, queue in queues):
        live = [(a, queue) for a, queue in queues if queue]
        a, queue = rng.choices(live, [max(a.weight, 1e-6) for a, _ in live])[0]
        recipe = queue.pop(0)
        yield recipe, f"{_changes(start, recipe)}: {a.action.value}, because {a.reason}", ""


def _by_action(writer: Writer, action: AdviceAction, start: Recipe, tunables: Tunables, why: str) -> Iterator[Idea]:
    for recipe in writer.moves(action, start, tunables):
        yield recipe, f"{_changes(start, recipe)}: {why}", ""


def _neighbours(start: Recipe, tunables: Tunables, rng: random.Random) -> Iterator[Idea]:
    """Every recipe one tunable away, in random order."""
    steps = [(name, value) for name, values in tunables.items() for value in values if value != start[name]]
    rng.shuffle(steps)
    for name, value in steps:
        yield {**start, name: value}, f"{name}={value} instead of {start[name]}, all else as the parent", ""


def _walk(start: Recipe, tunables: Tunables, rng: random.Random) -> Iterator[Idea]:
    """Two and three tunables at once."""
    for _ in range(_LIMIT):
        names = rng.sample(sorted(tunables), min(len(tunables), rng.choice((2, 2, 3))))
        recipe = {**start, **{name: rng.choice(tunables[name]) for name in names}}
        yield recipe, f"{_changes(start, recipe) or 'the same tunables'} together", ""


def _changes(start: Recipe, recipe: Recipe) -> str:
    return ", ".join(f"{name}={value}" for name, value in recipe.items() if start.get(name) != value)
