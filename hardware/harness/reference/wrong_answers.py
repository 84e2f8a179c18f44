"""Answers that anybody can give without computing. Where one of them passes, a problem decides nothing."""

import math
from collections.abc import Iterator
from typing import Any

from ..tensors import values
from ..tensors.compare import Target


def passing(inputs: list[Any], targets: list[Target]) -> tuple[str, ...]:
    """Names of the wrong answers to ``inputs`` that would pass as right ones, for every output."""
    tensors = values.tensors_of(inputs)
    names: list[str] | None = None
    answers = [target for target in targets if target.is_answer]
    # A module that returns nothing is told by what it keeps.
    for target in answers if any(target.kind != "none" for target in answers) else targets:
        names = list(_passing(target, tensors, names))
    return tuple(names or ())


def both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Names in both, in their order."""
    return tuple(name for name in first if name in second)


def _passing(target: Target, tensors: list[Any], among: list[str] | None) -> Iterator[str]:
    """Those of the wrong answers ``among`` these that pass as ``target``."""
    for value in (0, 1):
        name = f"an answer of all {value}"
        if _is_asked(name, among) and target.accepts_constant(value):
            yield name
    name = "a constant (the mean)"
    # The mean of a single number is that number: it says nothing about a problem that reduces to one, like a loss.
    is_telling = target.kind == "none" or math.prod(target.shape) > 1
    if _is_asked(name, among) and is_telling and target.accepts_constant(target.mean):
        yield name
    for name, everywhere in (("the first row alone", False), ("the first row everywhere", True)):
        if _is_asked(name, among) and target.accepts_first_row(everywhere=everywhere):
            yield name
    for index, tensor in enumerate(tensors):
        name = f"input {index} itself"
        if _is_asked(name, among) and target.accepts(tensor if target.fits(tensor) else None):
            yield name


def _is_asked(name: str, among: list[str] | None) -> bool:
    return among is None or name in among
