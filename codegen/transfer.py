"""Carries tunables over: crosses the configs of two parents, and adapts the config of a similar problem."""

import random
from collections.abc import Iterator

from ..schemas import Config, HardwareFacts, ProblemFacts
from .backends import CODEGEN_BACKENDS
from .ir.error_bounds import ErrorBounds
from .ir.tunables import Tunables, complete

_CROSSINGS = 8
"""Ways to mix two configs that are looked at."""


def crossed(start: Config, second: Config, tunables: Tunables, rng: random.Random) -> Iterator[Config]:
    """Configs that take every tunable in which the parents differ from one or the other, evenly (uniform crossover)."""
    second = complete(second, tunables)
    different = [name for name in tunables if start[name] != second[name]]
    for _ in range(_CROSSINGS if different else 0):
        yield {**start, **{name: second[name] for name in different if rng.random() < 0.5}}


def rewritten(facts: ProblemFacts, hardware: HardwareFacts, config: Config, language: str) -> tuple[str, Config] | None:
    """The candidate that ``config``, found on another problem, stands for on this one, and what is left of the config.

    Tunables that do not matter here fall away, those it does not name have their default. None if this problem has
    nothing that the generator writes kernels for in ``language``.
    """
    backend = CODEGEN_BACKENDS.get(language)
    if backend is None or facts.graph is None:
        return None
    tunables = backend.tunables(facts.graph, hardware, ErrorBounds.of_problem(facts))
    if tunables is None:
        return None
    here = complete(config, tunables)
    return backend.source(facts, facts.graph, here, hardware), here
