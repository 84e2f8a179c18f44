"""Draws inputs of one kind and finds out whether the reference still means something on them.

The rule: the reference runs; in float64 it gives the same whole numbers, is finite in the same places and, where no
input is special, gives no NaN; its own error, and how far its answer moves when every input moves by an epsilon, stay
moderate (:func:`.bounds.is_moderate`). So a problem whose inputs must lie in some range takes no harm from a kind that
leaves it, provided its reference shows that: by raising, by NaN, by losing its digits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...schemas import InputKind
from .answering import Refused
from .compare import Target
from .derived import derive
from .kinds import STRIDED, allows_nonfinite, instead_of, planned
from .messages import Open
from .place import brought
from .subject import Subject
from .targets import targets_of
from .wrong_answers import both, passing

SLOW_SECONDS = 10.0
"""Where the reference and its oracle take longer, they are not asked for more than the problem's own inputs."""
TOO_SLOW = f"the reference and its oracle take more than {SLOW_SECONDS:g} s there"


class Meaningless(Exception):
    """The reference says nothing on inputs of this kind; the message says why."""


def is_slow(seconds: float) -> bool:
    """Whether a case that took so long to make is the last of its shape."""
    return seconds > SLOW_SECONDS


def changed(subject: Subject, problem: Open, base: list[Any], kind: str, seed: int) -> tuple[list[Any], list[Target]]:
    """``base`` (here, not in main memory) changed as ``kind`` says, and what is right for it.

    Raises:
        Meaningless: candidates cannot be checked on that.
    """
    inputs = derive(base, kind, seed)
    if inputs is None:
        raise Meaningless("it has no floating numbers that may be others")
    plain = kind == STRIDED
    try:
        targets = targets_of(subject, problem, inputs, shake=not plain)
    except Refused as refused:
        raise Meaningless(f"the reference fails on them ({refused})") from None
    doubts = [] if plain else [target.doubt(may_be_nan=allows_nonfinite(kind)) for target in targets]
    doubt = next(filter(None, doubts), "")
    if doubt:
        raise Meaningless(doubt)
    return inputs, targets


@dataclass
class Battery:
    """All inputs beside the problem's own that candidates would be checked on, examined one after the other."""

    subject: Subject
    problem: Open
    seed: int
    sizes: Mapping[str, int]
    """Bytes of the inputs by shape."""
    took: Mapping[str, float]
    """How long the case of the problem's own inputs took to make at each shape, seconds."""
    passing: tuple[str, ...]
    """Wrong answers that passed on everything so far."""
    lone: list[Any] | None
    """The inputs of the only shape, where there is but one."""

    def examined(self) -> tuple[InputKind, ...]:
        """Every kind, with the reason where it is left out; afterwards ``passing`` are those that pass on all."""
        found: list[InputKind] = []
        waiting = planned(self.sizes, self.subject.shapes, decided=not self.passing)
        while waiting:
            shape, kind = waiting.pop(0)
            refused = self._refused(shape, kind)
            found.append(InputKind(name=kind, shape=shape, refused=refused))
            if refused and instead_of(kind):
                waiting.append((shape, instead_of(kind)))
        return tuple(found)

    def _refused(self, shape: str, kind: str) -> str:
        if is_slow(self.took[shape]):
            return TOO_SLOW
        base = brought(self.subject.draw(shape, self.seed)) if self.lone is None else self.lone
        try:
            inputs, targets = changed(self.subject, self.problem, base, kind, self.seed)
        except Meaningless as why:
            return str(why)
        if self.passing and not allows_nonfinite(kind):
            # Where numbers are not finite, a copy of them says nothing about the others.
            self.passing = both(self.passing, passing(inputs, targets))
        return ""
