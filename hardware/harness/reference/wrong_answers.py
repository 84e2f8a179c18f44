"""Wrong answers that need no computation (zeros, a mean, …): a problem on which one passes is refused.

How far off a wrong answer is, is said in units of the error bound: up to 1 it passes as right.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..tensors import values
from ..tensors.compare import Target

OTHER_INPUTS = "the answer to other inputs"
"""A network that forgets its input gives it for every input."""
_INPUT = "input {} itself"


def distances(
    inputs: list[Any], targets: list[Target], others: Sequence[Any] = (), among: Iterable[str] | None = None
) -> dict[str, float]:
    """How far off each wrong answer to ``inputs`` is, in error bounds; infinite where it cannot even be the answer.

    What is far off is not measured exactly: at least so many bounds.

    Args:
        inputs: What the reference was called with.
        targets: What is right.
        others: What is right for other inputs, output by output; empty if that is not to be tried.
        among: Only wrong answers of these names.
    """
    tensors = values.tensors_of(inputs)
    asked = list(_names(tensors, others) if among is None else among)
    total = dict.fromkeys(asked, 0.0)
    answers = [(index, target) for index, target in enumerate(targets) if target.is_answer and target.is_judged]
    # A module that returns nothing is told by what it keeps.
    if not any(target.kind != "none" for _, target in answers):
        answers = list(enumerate(targets))
    for index, target in answers:
        # What is off in one output is no answer: the others need not be looked at.
        left = {name for name in asked if total[name] <= 1}
        if target.kind == "none":
            continue
        for name, distance in _distances(target, index, tensors, others, left):
            total[name] = max(total[name], distance)
    return total if answers else {}


def farthest(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Distances of wrong answers over both input sets."""
    return {name: max(first[name], second[name]) for name in first if name in second}


def passing(distance: Mapping[str, float]) -> tuple[str, ...]:
    """Names of the wrong answers that pass as right."""
    return tuple(name for name, bounds in distance.items() if bounds <= 1)


def ignores_inputs(names: Iterable[str]) -> bool:
    """Whether one of these wrong answers needs no input: then other weights may show that it is wrong."""
    return any(not name.startswith(_INPUT.partition("{")[0]) for name in names)


def _names(tensors: Sequence[Any], others: Sequence[Any]) -> Iterator[str]:
    yield from ("an answer of all 0", "an answer of all 1", "a constant (the mean)")
    yield from ("the first row alone", "the first row everywhere")
    if others:
        yield OTHER_INPUTS
    yield from (_INPUT.format(index) for index in range(len(tensors)))


def _distances(
    target: Target, index: int, tensors: Sequence[Any], others: Sequence[Any], among: set[str]
) -> Iterator[tuple[str, float]]:
    for value in (0, 1):
        if (name := f"an answer of all {value}") in among:
            yield name, target.distance_of_constant(value)
    if (name := "a constant (the mean)") in among:
        # The mean of a single number is that number: it says nothing about a problem that reduces to one, like a loss.
        is_telling = target.kind == "none" or math.prod(target.shape) > 1
        yield name, target.distance_of_constant(target.mean) if is_telling else math.inf
    for name, everywhere in (("the first row alone", False), ("the first row everywhere", True)):
        if name in among:
            yield name, target.distance_of_first_row(everywhere=everywhere)
    if OTHER_INPUTS in among:
        yield OTHER_INPUTS, target.distance_of(others[index] if index < len(others) else None)
    for position, tensor in enumerate(tensors):
        if (name := _INPUT.format(position)) in among:
            yield name, target.distance_of(tensor)
