"""Draws inputs of one variant, or of another shape, and tests whether the reference is still valid on them.

The rule: the reference runs; in float64 it gives the same whole numbers, is finite in the same places and, where no
input is special, gives no NaN; its own error, and how far its answer moves when every input moves by an epsilon, stay
moderate (:func:`..tensors.bounds.moderate_error`). So a problem whose inputs must lie in some range takes no harm
from a variant that leaves it, provided its reference shows that: by raising, by NaN, by losing its digits.

At a shape that the problem does not name (:mod:`..inputs.held_out`) inputs and answers must also be of the types and
dimensions that they have at the named one, and nothing may be doubtful that is not so there.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ....schemas import InputKind
from ...processes.messages import HOST
from ..calls.answering import Refused
from ..inputs.held_out import LARGER_VARIANTS, MOST_GROWTH, in_words
from ..inputs.sizes import REDRAWN_BYTES
from ..inputs.variants import NO_ROOM, SMALL_BYTES, SPREAD, STRIDED, allows_nonfinite, instead_of, left_out, planned
from ..messages.commands import Open
from ..tensors import values
from ..tensors.compare import Target
from ..tensors.tensor_placement import current_device, to_device
from .derived import derive
from .effects import called
from .problem import ReferenceProblem
from .targets import targets_of
from .wrong_answers import distances, farthest, passing

SLOW_SECONDS = 10.0
"""Where the reference and its oracle take longer, they are not asked for more than the problem's own inputs."""
TOO_SLOW = f"the reference and its oracle take more than {SLOW_SECONDS:g} s there"


FINITE_ALONE = "the problem sets `finite_inputs`"
TIES = "it hangs on the order of equal numbers or nearly equal ones, which is not defined (as in topk)"
DRAWS = 4
"""How often inputs of a variant are drawn before it counts as invalid."""
ALIKE = 2
"""So many variants of a shape that are refused for the same reason on all draws make the others be drawn once: a deep
network with ReLUs jumps wherever one looks, and each draw of it is five runs."""


class InvalidVariant(Exception):
    """The reference says nothing on inputs of this variant; the message says why."""


class InvalidDraw(InvalidVariant):
    """The reference says nothing on this draw; on another one it may."""


def is_slow(seconds: float) -> bool:
    """Whether a case that took so long to make is the last of its shape."""
    return seconds > SLOW_SECONDS


def changed(
    reference: ReferenceProblem,
    problem: Open,
    draw: Callable[[int], list[Any]],
    variant: str,
    seed: int,
    error: float,
    *,
    in_tf32: Sequence[bool] = (),
    quick: bool = False,
    draws: int = DRAWS,
) -> tuple[list[Any], list[Target]]:
    """A draw from ``seed`` changed as ``variant`` says, and what is right for it; another draw where it is invalid.

    Args:
        reference: The problem as a child sees it.
        problem: It as it was opened.
        draw: The problem's own inputs for a seed, on this process's device.
        variant: What is made of them.
        seed: Of the first draw; those behind it follow from it.
        error: The reference's own on the problem's own inputs.
        in_tf32: By output, whether candidates may have it in TF32 there.
        quick: Whether to leave it at one run in float64 where that raises no doubt: nobody is judged on the draw.
        draws: How many are tried.

    Raises:
        InvalidVariant: candidates cannot be checked on that, or on none of the draws.
    """
    if reference.finite_inputs and allows_nonfinite(variant):
        raise InvalidVariant(FINITE_ALONE)
    drawn_from = seed
    for attempt in range(1, draws):
        # What they are made from goes at once: of large inputs the device's memory holds few.
        inputs = derive(draw(drawn_from), variant, seed + attempt - 1)
        is_small = inputs is not None and values.size_of(inputs) <= REDRAWN_BYTES
        try:
            return _changed(reference, problem, inputs, variant, error, in_tf32, quick)
        except InvalidDraw:
            del inputs
            if not is_small:
                break
            drawn_from = seed + attempt
    inputs = derive(draw(drawn_from), variant, seed + draws - 1)
    return _changed(reference, problem, inputs, variant, error, in_tf32, quick)


def _changed(
    reference: ReferenceProblem,
    problem: Open,
    inputs: list[Any] | None,
    variant: str,
    error: float,
    in_tf32: Sequence[bool],
    quick: bool,
) -> tuple[list[Any], list[Target]]:
    if inputs is None:
        raise InvalidVariant("it has no floating numbers that may be others")
    plain = variant == STRIDED

    def doubt_of(target: Target) -> str:
        return target.doubt(may_be_nan=allows_nonfinite(variant), usual=error if variant == SPREAD else 0.0)

    def check(target: Target) -> None:
        if target.is_answer and (why := doubt_of(target)):
            raise InvalidDraw(why)

    try:
        early = None if plain else check
        targets = targets_of(reference, problem, inputs, shake=not plain, check=early, quick=quick)
    except Refused as refused:
        raise InvalidVariant(f"the reference fails on them ({refused})") from None
    doubt = ""
    known = (*in_tf32, *[False] * len(targets))
    for target, is_tf32 in () if plain else zip(targets, known, strict=False):
        doubtful = doubt_of(target)
        if is_tf32 and target.jumps_in_tf32:
            doubtful = doubtful or f"its error in TF32 is {target.error_in_tf32:.2g}"
        if target.is_answer:
            doubt = doubt or doubtful
        # What a module keeps may mean nothing where its answer does, as an average of infinities: that alone is judged.
        target.is_judged = target.is_answer or (not doubtful and target.is_finite)
    if doubt:
        raise InvalidDraw(doubt)
    if any(target.hangs_on_ties for target in targets):
        for target in targets:
            # What was chosen is told by whole numbers, and by how many times each of them was.
            target.is_judged = target.is_judged and target.floating
        if allows_nonfinite(variant) or not any(target.is_judged for target in targets):
            raise InvalidDraw(TIES)
    return inputs, targets


@dataclass(frozen=True)
class Usual:
    """What inputs and answers are like at a shape that the problem names."""

    inputs: tuple[tuple[str, str, int], ...]
    """Type, dtype and number of dimensions, leaf by leaf."""
    outputs: tuple[tuple[str, str, int], ...]
    doubt: str
    """Why the reference is not sure of its answer even there; empty if it is."""
    size: int
    """Bytes of the inputs."""
    error: float
    """The reference's own, the largest of its outputs'."""
    in_tf32: tuple[bool, ...] = ()
    """By output, whether its error in TF32 counts as its own."""


def usual(inputs: list[Any], targets: list[Target]) -> Usual:
    """What ``inputs`` and the answers to them are like."""
    return Usual(
        inputs=tuple(map(_form, values.leaves(inputs))),
        outputs=tuple((target.kind, target.dtype, len(target.shape)) for target in targets),
        doubt=next(filter(None, (target.doubt(may_be_nan=False) for target in targets)), ""),
        size=values.size_of(inputs),
        error=max((target.reference_error for target in targets if target.floating), default=0.0),
        in_tf32=tuple(target.is_tf32 for target in targets),
    )


def elsewhere(
    reference: ReferenceProblem,
    problem: Open,
    shape: str,
    variant: str,
    sizes: Mapping[str, int],
    seed: int,
    like: Usual,
    took: float,
) -> tuple[list[Any], list[Target]]:
    """Inputs of the problem's own at made-up ``sizes``, and what is right for them.

    At ``shape``, which they were made from as ``variant`` says, inputs and answers are ``like`` that, and such a case
    ``took`` seconds.

    Raises:
        InvalidVariant: candidates cannot be checked there.
    """
    sizes_text = in_words(sizes)
    try:
        drawn = reference.draw(shape, seed, sizes)
        least, most = (like.size + 1, like.size + MOST_GROWTH) if variant in LARGER_VARIANTS else (0, SMALL_BYTES)
        if not least <= values.size_of(drawn) <= most:
            raise InvalidVariant(f"at {sizes_text} its inputs are {values.size_of(drawn) / 1e6:.1f} MB")
        if is_slow(took * values.size_of(drawn) / max(like.size, 1)):
            raise InvalidVariant(TOO_SLOW)
        if current_device().device.type != HOST:
            # An index out of range raises in main memory. On a device it ends whatever else runs in this process.
            called(reference, problem, drawn)
        inputs = to_device(drawn)
        targets = targets_of(reference, problem, inputs)
    except Refused as refused:
        raise InvalidVariant(f"the problem refuses {sizes_text} ({refused})") from None
    actual = usual(inputs, targets)
    if (actual.inputs, actual.outputs) != (like.inputs, like.outputs):
        raise InvalidVariant(f"at {sizes_text} inputs or answers are of other types or dimensions")
    if actual.doubt and not like.doubt:
        raise InvalidVariant(f"at {sizes_text} {actual.doubt}")
    return inputs, targets


def _form(leaf: Any) -> tuple[str, str, int]:
    is_tensor = isinstance(leaf, torch.Tensor)
    return type(leaf).__name__, str(leaf.dtype) if is_tensor else "", leaf.dim() if is_tensor else 0


@dataclass
class InputVariants:
    """All inputs beside the problem's own that candidates would be checked on, examined one after the other."""

    reference: ReferenceProblem
    problem: Open
    seed: int
    sizes: Mapping[str, int]
    """Bytes of the inputs by shape."""
    calls: Mapping[str, int]
    """Bytes of the inputs and outputs of a call, by timed shape."""
    took: Mapping[str, float]
    """How long the case of the problem's own inputs took to make at each shape, seconds."""
    usual: Mapping[str, Usual]
    distances: dict[str, float]
    """How far off wrong answers are on everything so far, in error bounds."""
    others: Mapping[str, list[Any]]
    """The answers to other inputs, by shape."""
    lone: list[Any] | None
    """The inputs of the only shape, where there is but one and drawing them again takes longer than it saves memory."""
    input_kinds: tuple[InputKind, ...] = ()
    """Every variant, with the reason where it is left out."""
    _reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a variant of a shape was refused for a reason that hangs on the draw."""

    def examine(self) -> None:
        """Try every variant; afterwards ``distances`` are those over all of them."""
        input_kinds: list[InputKind] = []
        decided = self._decides
        waiting = planned(self.sizes, self.calls, decided=decided)
        while waiting:
            shape, variant = waiting.pop(0)
            refused = self._refused(shape, variant)
            input_kinds.append(InputKind(name=variant, shape=shape, refused=refused))
            waiting += [(shape, substitute) for substitute in instead_of(variant)] if refused else []
        left = [
            InputKind(name=variant, shape=timed, refused=NO_ROOM)
            for timed, call in self.calls.items()
            for variant in left_out(call, decided=decided)
        ]
        self.input_kinds = (*input_kinds, *left)

    @property
    def _decides(self) -> bool:
        """Whether the problem's own inputs show what is wrong; not if it needs other weights for that."""
        return not passing(self.distances) and not self.problem.weight_exponents

    def _draws(self, shape: str) -> int:
        alike = max((count for (place, _), count in self._reasons.items() if place == shape), default=0)
        return DRAWS if alike < ALIKE else 1

    def _refused(self, shape: str, variant: str) -> str:
        if is_slow(self.took[shape]):
            return TOO_SLOW

        def draw(seed: int) -> list[Any]:
            return self.lone if self.lone is not None else to_device(self.reference.draw(shape, seed))

        names = passing(self.distances)
        try:
            like = self.usual[shape]
            inputs, targets = changed(
                self.reference,
                self.problem,
                draw,
                variant,
                self.seed,
                like.error,
                in_tf32=like.in_tf32,
                quick=not names,
                draws=self._draws(shape),
            )
        except InvalidDraw as why:
            self._reasons[shape, str(why)] += 1
            return str(why)
        except InvalidVariant as why:
            return str(why)
        if names and not allows_nonfinite(variant) and all(target.is_finite for target in targets):
            # Where numbers are not finite, a copy of them says nothing about the others.
            far = distances(inputs, targets, self.others[shape], names)
            self.distances = farthest(self.distances, self.distances | far)
        return ""
