"""Where a reference's gradient depends on rounding: numbers beside the corner of a ReLU, a maximum, a clamp.

Two right kernels sum in other orders. A number beside zero is positive in one and negative in the other, and the
gradient of all that comes before is another one: of a ReLU with a million numbers in one call of two. Float64 finds
these numbers, and can take either side of each. So an oracle exists for every set of sides, and whatever else is wrong
with a gradient stays as visible as without corners.
"""

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..tensors.bounds import Tolerance
from ..tensors.compare import Target
from .targets import FEW_SHAKES
from .tie_order import is_step

Answers = list[torch.Tensor]

_aten = torch.ops.aten
NEAR = 16.0
"""Epsilons of the typical number from a corner: sums of thousands are off by a few, in each layer."""
MOST = 48
"""Corners: what each does to the gradients is computed in a run of its own, if a candidate is wrong without them."""
MOST_SECONDS = 120.0
"""Of these runs together, as long as the faster of two says: a comparison may take five minutes."""
COMPARED = 1 << 20
"""Numbers of gradients that are looked at to tell sides apart, about: kept for each corner, in float64."""
FARTHEST = 1e6
"""Typical numbers that a gradient counts as off at most: what is farther off is wrong in any case."""
_DRAWS = 6
"""Of movements, and the opposites, to find the second largest number of a window: each finds one of two."""
_LEAST = 1e-300
"""Makes a ReLU's result positive, and changes nothing else."""
_SLOPE_CHANGE = 1e-3
_ZERO = 1e-24
"""Of the largest square of an effect: such an effect is none."""

_RELU = frozenset({_aten.relu, _aten.relu_})
_SLOPES = frozenset(
    getattr(_aten, f"{name}_backward") for name in ("leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "softshrink")
)
"""Of the gradient that comes in and the number that a slope is of."""
_COMPARED = frozenset({_aten.gt, _aten.ge, _aten.lt, _aten.le, _aten.sgn, _aten.sign})
_PLACES = frozenset(
    {_aten.max_pool2d_with_indices, _aten.max_pool3d_with_indices, _aten.adaptive_max_pool2d, _aten.max, _aten.min}
)
"""Of these the second output."""
_FOLLOW = frozenset(
    {
        *(_aten.threshold_backward, _aten.max_pool2d_with_indices_backward, _aten.max_pool3d_with_indices_backward),
        *(_aten.adaptive_max_pool2d_backward, _aten.elu_backward),
    }
)
"""Slopes that follow what the forward pass chose, or have no corner."""


class TooManyCorners(Exception):
    """More than :data:`MOST`, or of operators that are not understood here: sides are not told apart."""


@dataclass(frozen=True)
class Corner:
    """One number beside a corner."""

    step: int
    """Which of the operators with corners met it, in the order of calls."""
    place: tuple[int, ...]
    """Of the element."""
    sides: tuple[float, float]
    """What the operator chooses on either side: a slope, an index, a truth value. That in float64 comes first."""


class Corners(TorchDispatchMode):  # type: ignore[misc]
    """Finds ``corners`` within ``near`` typical numbers; or meets those that are given, and notes or sets their sides.

    Args:
        corners: Those of another run of the same operators.
        other: The numbers, of ``corners``, that are taken on their other side; all others are on the first. None: the
            run chooses itself, and :attr:`other` tells what it chose.
        near: To find corners.
    """

    def __init__(
        self, corners: Sequence[Corner] = (), other: Collection[int] | None = None, *, near: float = 0.0
    ) -> None:
        super().__init__()
        self.corners = list(corners)
        self.other: set[int] = set() if other is None else set(other)
        self._is_set, self._near = other is not None, near
        self._step = -1
        self._steps: dict[int, list[int]] = {}
        for number, corner in enumerate(self.corners):
            self._steps.setdefault(corner.step, []).append(number)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, packet = kwargs or {}, func.overloadpacket
        is_place = packet in _PLACES and len(func._schema.returns) == 2
        if not (is_place or packet in _RELU | _SLOPES | _COMPARED) or not args[0].is_floating_point():
            is_other = self._near and packet not in _FOLLOW and is_step(func, args, kwargs)
            if is_other and (packet not in (_aten.eq, _aten.ne) or bool(func(*args, **kwargs).any())):
                raise TooManyCorners(f"{func} has corners that are not told apart")
            return func(*args, **kwargs)
        self._step += 1
        if packet in _SLOPES:
            slope = _slope(func, args, kwargs)
            output = func(*args, **kwargs)
            self._meet(lambda: slope(args[1]), lambda moved: slope(moved), args[1], lambda at, side: None)
            for number in self._steps.get(self._step, ()) if self._is_set else ():
                place = self.corners[number].place
                output[place] = args[0][place] * self._side(number)
            return output
        number = args[0].clone() if packet is _aten.relu_ and self._near else args[0]
        output = func(*args, **kwargs)
        if packet in _RELU:
            self._meet(lambda: number > 0, lambda moved: moved > 0, number, _put(output, _LEAST), output)
        elif is_place:
            self._meet(
                lambda: output[1], lambda moved: func(moved, *args[1:], **kwargs)[1], number, _put(output[1]), output[1]
            )
        else:
            self._meet(lambda: output, lambda moved: func(moved, *args[1:], **kwargs), number, _put(output), output)
        return output

    @property
    def steps(self) -> int:
        """How many operators with corners ran."""
        return self._step + 1

    def _meet(
        self,
        chosen: Callable[[], torch.Tensor],
        choose: Callable[[torch.Tensor], torch.Tensor],
        number: torch.Tensor,
        put: Callable[[tuple[int, ...], float], None],
        output: torch.Tensor | None = None,
    ) -> None:
        if self._near:
            self._find(chosen().double(), choose, number)
        mine = self._steps.get(self._step, ())
        if not mine:
            return
        choice = None if self._is_set else chosen()
        for index in mine:
            corner = self.corners[index]
            if choice is None:
                put(corner.place, self._side(index))
            else:
                first, second = (abs(float(choice[corner.place]) - side) for side in corner.sides)
                if second < first:
                    self.other.add(index)

    def _side(self, number: int) -> float:
        return self.corners[number].sides[number in self.other]

    def _find(self, chosen: torch.Tensor, choose: Callable[[torch.Tensor], torch.Tensor], number: torch.Tensor) -> None:
        distance = self._near * float(number.double().square().mean().sqrt()) if number.numel() else 0.0
        if not math.isfinite(distance):
            raise TooManyCorners("numbers are not finite")
        # Zeros stay: a window of them, behind a ReLU, has no second largest number that matters.
        away = (number != 0).to(number.dtype).mul_(distance)
        moves = [away, -away]
        if chosen.shape != number.shape:
            generator = torch.Generator(number.device).manual_seed(0)
            drawn = (torch.rand(number.shape, generator=generator, device=number.device) for _ in range(_DRAWS))
            moves = [move for draw in drawn for move in (away.where(draw < 0.5, -away), away.where(draw >= 0.5, -away))]
        met: set[tuple[int, ...]] = set()
        for move in moves:
            moved = choose(number + move).double()
            for place in ((moved - chosen).abs() > _SLOPE_CHANGE).nonzero().tolist()[: 2 * MOST]:
                if tuple(place) not in met:
                    met.add(tuple(place))
                    sides = float(chosen[tuple(place)]), float(moved[tuple(place)])
                    self.corners.append(Corner(self._step, tuple(place), sides))
            if len(self.corners) > MOST:
                raise TooManyCorners(f"more than {MOST} numbers lie beside corners")


def _put(output: torch.Tensor, scale: float = 1.0) -> Callable[[tuple[int, ...], float], None]:
    """Sets an element; of a ReLU's result (``scale``) only its being positive."""

    def put(place: tuple[int, ...], side: float) -> None:
        if scale == 1.0 or (float(output[place]) > 0) != bool(side):
            output[place] = side * scale

    return put


def _slope(func: Any, args: Any, kwargs: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda number: func(torch.ones_like(number), number, *args[2:], **kwargs)


class Sides:
    """Right gradients, with all corners on the sides that the reference takes in its own precision."""

    def __init__(
        self,
        native: Callable[[], Answers],
        precise: Callable[[float, int], Answers],
        epsilon: float,
        tolerance: Tolerance,
    ) -> None:
        """``native`` computes gradients in the reference's own precision, of which ``epsilon`` is; ``precise`` in
        float64, with all inputs off by a share that is drawn from a seed.

        Raises:
            TooManyCorners: sides cannot be told apart.
        """
        self._precise, self._tolerance = precise, tolerance
        for _ in range(2):  # the first run may import, and wait for others on a busy machine
            began = time.monotonic()
            with Corners(near=NEAR * epsilon) as corners:
                self._oracle = precise(0.0, 0)
            if (time.monotonic() - began) * len(corners.corners) <= MOST_SECONDS:
                break
        else:
            raise TooManyCorners("a run for each of them takes too long")
        self.corners = corners.corners
        with Corners(self.corners) as chosen:
            answers = native()
        if chosen.steps != corners.steps:
            raise TooManyCorners("it computes otherwise in float64")
        self._other = chosen.other
        if self._other:
            self._oracle = self._on(self._other)
        moved = [self._on(self._other, epsilon, 1 + number) for number in range(FEW_SHAKES)]
        self.targets = [
            Target(answer, oracle, tolerance, shaken)
            for answer, oracle, shaken in zip(answers, self._oracle, zip(*moved, strict=True), strict=True)
        ]
        self._effects: torch.Tensor | None = None

    def _on(self, other: Collection[int], share: float = 0.0, seed: int = 0) -> Answers:
        with Corners(self.corners, other):
            return self._precise(share, seed)

    def explain(self, got: Answers) -> list[Target] | None:
        """What is right where corners are taken on the sides that explain most of what is wrong with ``got``.

        A wrong answer is no nearer to that than rounding explains, so it stays wrong. None: no corner explains any.
        """
        if self._effects is None:
            flat = self._flat(self._oracle)
            effects = flat.new_empty(len(self.corners), flat.numel())
            for number, effect in enumerate(effects):
                effect.copy_(self._flat(self._on(self._other ^ {number})))
            self._effects = effects
        taken = explaining(self._effects @ self._effects.T, self._effects @ self._flat(got))
        if not taken:
            return None
        return [self._moved(*pair) for pair in zip(self.targets, self._on(self._other ^ taken), strict=True)]

    def _moved(self, target: Target, oracle: torch.Tensor) -> Target:
        moved = Target(oracle, oracle, self._tolerance)
        moved.take_bound(target)
        return moved

    def _flat(self, answers: Answers) -> torch.Tensor:
        """How far ``answers`` are from what is right, in typical numbers of each of them; of many numbers, some."""
        # Odd: an even one would leave out whole columns.
        step = -(-sum(map(torch.Tensor.numel, answers)) // COMPARED) | 1
        parts = []
        for answer, right in zip(answers, self._oracle, strict=True):
            typical = right.square().mean().sqrt()
            # All zeros on this side perhaps, and not on another.
            parts.append((answer.double() - right).reshape(-1)[::step] / typical.where(typical > 0, 1.0))
        return torch.nan_to_num(torch.cat(parts)).clamp_(-FARTHEST, FARTHEST)


def explaining(gram: torch.Tensor, products: torch.Tensor) -> set[int]:
    """Of vectors those whose sum is nearest to another one, by their products with one another and with that one.

    One or two are taken or given back at a time: a maximum chooses once for each of its two numbers. Zeros are never
    taken: a maximum behind a ReLU that is off chooses among zeros, and its other place counts once the ReLU is on.
    """
    taken = torch.zeros_like(products)
    is_zero = gram.diagonal() <= _ZERO * gram.diagonal().max()
    for _ in range(2 * len(taken)):
        sign = 1 - 2 * taken
        gains = (gram.diagonal() - 2 * sign * (products - gram @ taken)).masked_fill(is_zero, torch.inf)
        both = gains[:, None] + gains + 2 * sign[:, None] * sign * gram
        both.diagonal().copy_(gains)
        best = int(both.argmin())
        if float(both.view(-1)[best]) >= 0:
            break
        for number in {best // len(taken), best % len(taken)}:
            taken[number] = 1 - taken[number]
    return set(taken.nonzero().squeeze(1).tolist())
