"""Draws inputs of one kind and finds out whether the reference still means something on them.

The rule: the reference runs; in float64 it gives the same whole numbers, is finite in the same places and, where no
input is special, gives no NaN; its own error, and how far its answer moves when every input moves by an epsilon, stay
moderate (:func:`.bounds.is_moderate`). So a problem whose inputs must lie in some range takes no harm from a kind that
leaves it, provided its reference shows that: by raising, by NaN, by losing its digits.
"""

from collections.abc import Mapping
from typing import Any

from ...schemas import InputKind
from .answering import Refused
from .compare import Target
from .derived import derive
from .kinds import NORMAL, STRIDED, allows_nonfinite, planned
from .messages import Open
from .place import brought
from .subject import Subject
from .targets import targets_of
from .values import size_of

SLOW_SECONDS = 10.0
"""Where the reference and its oracle take longer, they are not asked for more than the problem's own inputs."""
TOO_SLOW = f"the reference and its oracle take more than {SLOW_SECONDS:g} s there"


class Meaningless(Exception):
    """The reference says nothing on inputs of this kind; the message says why."""


def is_slow(seconds: float) -> bool:
    """Whether a case that took so long to make is the last of its shape."""
    return seconds > SLOW_SECONDS


def drawn(subject: Subject, problem: Open, shape: str, seed: int, kind: str) -> tuple[list[Any], list[Target]]:
    """Inputs of ``kind`` at ``shape`` from ``seed``, in main memory, and what is right for them.

    Raises:
        Meaningless: candidates cannot be checked on them.
        Refused: the problem's own inputs or its reference fail.
    """
    inputs = subject.draw(shape, seed)
    if kind == NORMAL:
        return inputs, targets_of(subject, problem, brought(inputs))
    changed = derive(inputs, kind, seed)
    if changed is None:
        raise Meaningless("it has no floating numbers that may be others")
    plain = kind == STRIDED
    try:
        targets = targets_of(subject, problem, brought(changed), shake=not plain)
    except Refused as refused:
        raise Meaningless(f"the reference fails on them ({refused})") from None
    doubts = [] if plain else [target.doubt(may_be_nan=allows_nonfinite(kind)) for target in targets]
    doubt = next(filter(None, doubts), "")
    if doubt:
        raise Meaningless(doubt)
    return changed, targets


def kinds_of(subject: Subject, problem: Open, seed: int, took: Mapping[str, float]) -> tuple[InputKind, ...]:
    """Every kind that candidates would be checked on, with the reason where they are not.

    ``took`` says how long the case of the problem's own inputs took to make at each shape, in seconds.
    """
    sizes = {shape: size_of(subject.draw(shape, seed)) for shape in subject.shapes}
    return tuple(
        InputKind(name=kind, shape=shape, refused=_refused(subject, problem, shape, seed, kind, took[shape]))
        for shape, kind in planned(sizes, subject.shapes)
    )


def _refused(subject: Subject, problem: Open, shape: str, seed: int, kind: str, seconds: float) -> str:
    if is_slow(seconds):
        return TOO_SLOW
    try:
        drawn(subject, problem, shape, seed, kind)
    except Meaningless as why:
        return str(why)
    return ""
