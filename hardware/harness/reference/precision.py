"""Tests whether a wrong answer was computed in a lower precision than asked.

Two kinds of evidence. The errors are the same: the answer lies much closer to what the reference gives in a lower
precision (all of it, or its inputs alone, as matrix units take them) than to what is right. Or the answer has no more
digits than a lower precision holds, while what is right has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..calls.answering import Refused, attempt
from ..tensors import values
from ..tensors.roundings import to_tf32
from .effects import copies
from .problem import ReferenceProblem

CLOSER = 0.5
"""An answer this much closer to the lower precision's than to the right one is the lower precision's."""
LEAST, MOST = 4.0, 0.25
"""Errors to look at, root mean square relative to the answer's: in epsilons of the output's type, and at most."""
FEWEST, NEARLY_ALL = 16, 0.99
"""Elements that must need more digits than a lower precision has, and the share of them that must do without. An answer
of fewer elements may lie near another precision's by chance."""

MOST_ELEMENTS = 1 << 24
"""A larger output is not computed in lower precisions throughout: a processor may be slow at that. Nor is all of it
looked at, but every so many elements."""

_LOWER = {
    "float64": ("float32", "tf32", "float16", "bfloat16"),
    "float32": ("tf32", "float16", "bfloat16"),
    "float16": ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "bfloat16": ("bfloat16", "float8_e4m3fn", "float8_e5m2"),
}
_NAMES = {"tf32": "tf32 (or float16)"}
"""Numbers of usual size have the same digits in tf32 and float16: what was rounded alone does not tell them apart."""

Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Answer:
    """A wrong output, or a sample of it."""

    got: torch.Tensor
    """What the candidate returned, flat in float64."""
    oracle: torch.Tensor
    """What is right, likewise."""
    dtype: str
    """The output's type."""
    step: int = 1
    """Of so many elements the first is here."""


def step_for(elements: int) -> int:
    """Every how many elements to look at of an output with so many."""
    return -(-elements // MOST_ELEMENTS) or 1


def suspected(reference: ReferenceProblem, inputs: list[Any], index: int, answer: Answer) -> str:
    """The sentence that says in which lower precision output ``index`` was computed; empty if it does not look so.

    Args:
        reference: The problem as a child sees it.
        inputs: What the candidate was called with.
        index: Which output.
        answer: What it returned, and what is right.
    """
    got, oracle, dtype = answer.got, answer.oracle, answer.dtype
    finite = torch.isfinite(got) & torch.isfinite(oracle)
    if dtype not in _LOWER or int(finite.sum()) < FEWEST:
        return ""
    off, size = _rms((got - oracle)[finite]), _rms(oracle[finite])
    if not LEAST * torch.finfo(getattr(torch, dtype)).eps * size < off < MOST * size:
        return ""
    sources = [_of_rounded(reference, inputs, index, answer)]
    if answer.step == 1:
        sources.append(_throughout(reference, inputs, index, answer))
    for answers in sources:
        alike = [(how, lower.to(got.device)) for how, lower in answers if lower.shape == got.shape]
        distances = [(_rms((got - lower)[finite]) / off, how) for how, lower in alike]
        closest, how = min((pair for pair in distances if pair[0] < CLOSER), default=(1.0, ""))
        if how:
            return (
                f"output {index} is what the reference gives {how}: the root mean square distance to that is "
                f"{closest * off / size:.2g} of the answer, to the right one {off / size:.2g}"
            )
    return _has_fewer_digits(got[finite], oracle[finite], index, dtype)


def _of_rounded(
    reference: ReferenceProblem, inputs: list[Any], index: int, answer: Answer
) -> Iterator[tuple[str, torch.Tensor]]:
    """What the reference says when its inputs hold less, flat in float64, and in words."""
    for name in _LOWER[answer.dtype]:
        for rounding in _roundings(name) if name != answer.dtype else ():

            def call(rounding: Rounding = rounding) -> Any:
                return reference.rounded(copies(inputs), rounding)

            yield from _answer(f"for inputs rounded to {_NAMES.get(name, name)}", call, index, answer.step)


def _throughout(
    reference: ReferenceProblem, inputs: list[Any], index: int, answer: Answer
) -> Iterator[tuple[str, torch.Tensor]]:
    """What the reference says when everything in it holds less."""
    for name in _LOWER[answer.dtype]:
        if name != "tf32" and not name.startswith("float8"):

            def call(name: str = name) -> Any:
                return reference.lowered(copies(inputs), getattr(torch, name))

            yield from _answer(f"in {name} throughout", call, index, answer.step)


def _answer(how: str, call: Callable[[], Any], index: int, step: int) -> Iterator[tuple[str, torch.Tensor]]:
    try:
        outputs = values.leaves(attempt(call))
    except Refused:
        # Not every operator knows every type.
        return
    if index < len(outputs) and isinstance(outputs[index], torch.Tensor):
        answer = outputs[index]
        components = torch.view_as_real(answer.resolve_conj()) if answer.is_complex() else answer
        yield how, components.reshape(-1)[::step].double()


def _has_fewer_digits(got: torch.Tensor, oracle: torch.Tensor, index: int, dtype: str) -> str:
    own = getattr(torch, dtype)
    got, oracle = got.to(own), oracle.to(own)
    for name in reversed(_LOWER[dtype]):
        if name == dtype:
            continue
        rounding = _roundings(name)[0]
        # Zeros and the like have few digits in any type: they say nothing.
        telling = rounding(oracle) != oracle
        held = (rounding(got) == got)[telling]
        if held.numel() >= FEWEST and float(held.double().mean()) >= NEARLY_ALL:
            return (
                f"output {index} holds {_NAMES.get(name, name)} numbers: of {held.numel()} elements that need more "
                f"digits {float(held.double().mean()):.0%} have no more"
            )
    return ""


def _roundings(name: str) -> list[Rounding]:
    """How numbers become ``name``: to the nearest; matrix units also cut off."""
    if name == "tf32":
        return [to_tf32, lambda tensor: to_tf32(tensor, cut=True)]
    return [lambda tensor: tensor.to(getattr(torch, name)).to(tensor.dtype)]


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
