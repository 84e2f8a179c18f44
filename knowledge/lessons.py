"""What a finished session taught: which tunable settings mattered, and which configs to try first next time. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from ..schemas import Config, Interval, Schema, Verdict

Value = str | int | float | bool | None
"""Setting of a tunable; None where the config does not have it."""


class Trial(Schema, frozen=True, kw_only=True):
    """A node of the session, reduced to what can be learned from it."""

    node: str
    parent: str = ""
    recipe: Config = {}
    verdict: Verdict = Verdict.correct
    speedup: float = 0.0
    """Median against the best baseline; 0 if it is wrong or was not timed."""
    interval: Interval | None = None
    """Of the confirmation run where there was one."""
    is_noise: bool = False
    """Whether :attr:`speedup` is the low end of an interval that says nothing: no effect is read from it."""
    confirmed: bool = False
    """Whether it was measured a second time: only such a number is told."""
    bottleneck: str = ""
    """What the analyst found to limit it."""
    rationale: str = ""
    evidence: tuple[str, ...] = ()
    """Ids of the events that its numbers rest on."""


class Effect(Schema, frozen=True, kw_only=True):
    """What one tunable did, from pairs of correct trials that differ in that tunable alone."""

    tunable: str
    better: Value
    worse: Value
    ratio: float
    """Geometric mean of speedup(better) / speedup(worse); above 1."""
    low: float
    """Least of the pairs' ratios."""
    high: float
    """Greatest of them."""
    pairs: int
    parents: int
    """How many of the pairs are children of one parent."""


class Failure(Schema, frozen=True, kw_only=True):
    """A setting that never worked in this session."""

    tunable: str
    value: Value
    verdict: Verdict
    """The most frequent of its verdicts."""
    count: int


def tunable_effects(trials: Iterable[Trial], *, at_least: float = 1.02) -> tuple[Effect, ...]:
    """Effects of single tunables, the strongest first; those under ``at_least`` are noise and left out.

    Only trials whose configs are equal but for one tunable are compared: no other difference is mistaken for an effect.
    """
    ratios: dict[tuple[str, str, str], list[tuple[float, bool]]] = defaultdict(list)
    values: dict[tuple[str, str], Value] = {}
    for tunable, a, b in _pairs([trial for trial in _timed(trials) if not trial.is_noise]):
        first, second = sorted((a, b), key=lambda trial: _key(trial.recipe.get(tunable)))
        first_value, second_value = first.recipe.get(tunable), second.recipe.get(tunable)
        values[tunable, _key(first_value)], values[tunable, _key(second_value)] = first_value, second_value
        same_parent = bool(a.parent) and a.parent == b.parent
        ratios[tunable, _key(first_value), _key(second_value)].append((first.speedup / second.speedup, same_parent))
    effects = [
        _effect(tunable, values[tunable, first_key], values[tunable, second_key], pairs)
        for (tunable, first_key, second_key), pairs in ratios.items()
    ]
    strong = [effect for effect in effects if effect.ratio >= at_least]
    return tuple(sorted(strong, key=lambda e: (-e.ratio, e.tunable, _key(e.better), _key(e.worse))))


def best_trials(trials: Iterable[Trial], *, limit: int = 3) -> tuple[Trial, ...]:
    """The fastest trials that are also diverse: each differs from every one before it in at least two tunables.

    One tunable is enough where configs have no more to differ in. Trials slower than the best baseline are left out.
    """
    ranked = sorted((t for t in _timed(trials) if t.speedup > 1 and t.recipe), key=lambda t: (-t.speedup, t.node))
    chosen: list[Trial] = []
    for distance in (2, 1):
        for trial in ranked:
            if len(chosen) < limit and all(_distance(trial.recipe, other.recipe) >= distance for other in chosen):
                chosen.append(trial)
    return tuple(sorted(chosen, key=lambda t: (-t.speedup, t.node)))


def failures(trials: Sequence[Trial], *, at_least: int = 2) -> tuple[Failure, ...]:
    """Settings that failed in every trial that had them, ``at_least`` times, while other settings worked."""
    judged = [trial for trial in trials if trial.recipe and trial.verdict is not Verdict.harness_error]
    worked = {(k, _key(v)) for t in judged if t.verdict is Verdict.correct for k, v in t.recipe.items()}
    usable = {tunable for tunable, _ in worked}
    verdicts: dict[tuple[str, str], Counter[Verdict]] = defaultdict(Counter)
    values: dict[tuple[str, str], Value] = {}
    for trial in judged:
        for tunable, value in trial.recipe.items():
            if tunable in usable and (tunable, _key(value)) not in worked:
                verdicts[tunable, _key(value)][trial.verdict] += 1
                values[tunable, _key(value)] = value
    failed_settings = [
        Failure(tunable=tunable, value=values[tunable, key], verdict=_most_frequent(counts), count=counts.total())
        for (tunable, key), counts in verdicts.items()
        if counts.total() >= at_least
    ]
    return tuple(sorted(failed_settings, key=lambda failure: (-failure.count, failure.tunable, _key(failure.value))))


def _timed(trials: Iterable[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.verdict is Verdict.correct and trial.speedup > 0]


def _pairs(trials: Sequence[Trial]) -> Iterator[tuple[str, Trial, Trial]]:
    """Every pair whose configs differ in one tunable alone, with that tunable; found by what they have in common."""
    tunables = sorted({tunable for trial in trials for tunable in trial.recipe})
    rows = [tuple(_key(trial.recipe.get(tunable)) for tunable in tunables) for trial in trials]
    for place, tunable in enumerate(tunables):
        alike: dict[tuple[str, ...], list[tuple[str, Trial]]] = defaultdict(list)
        for row, trial in zip(rows, trials, strict=True):
            alike[row[:place] + row[place + 1 :]].append((row[place], trial))
        for family in alike.values():
            for (key_a, a), (key_b, b) in combinations(family, 2):
                if key_a != key_b:
                    yield tunable, a, b


def _differences(a: Config, b: Config) -> list[str]:
    return [tunable for tunable in sorted({*a, *b}) if _key(a.get(tunable)) != _key(b.get(tunable))]


def _distance(a: Config, b: Config) -> int:
    return len(_differences(a, b))


def _key(value: Value) -> str:
    """Tells 1 from True and from "1", which dictionaries and comparisons may not."""
    return f"{type(value).__name__}:{value!r}"


def _effect(tunable: str, first: Value, second: Value, pairs: list[tuple[float, bool]]) -> Effect:
    ratios = [ratio for ratio, _ in pairs]
    # fsum: the same to the last bit in whatever order the trials come.
    mean = math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
    if mean < 1:
        first, second, mean, ratios = second, first, 1 / mean, [1 / ratio for ratio in ratios]
    return Effect(
        tunable=tunable,
        better=first,
        worse=second,
        ratio=mean,
        low=min(ratios),
        high=max(ratios),
        pairs=len(ratios),
        parents=sum(same for _, same in pairs),
    )


def _most_frequent(counts: Counter[Verdict]) -> Verdict:
    return min(counts, key=lambda verdict: (-counts[verdict], verdict))
