"""The right answers for given inputs: the reference's outputs, in its own precision and in float64."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..calls.answering import Refused, attempt
from ..inputs.sizes import REDRAWN_BYTES, overlaps
from ..inputs.variants import SMALL_BYTES
from ..messages.commands import Open
from ..tensors import right_answer, values
from ..tensors.bounds import SHAKES, Tolerance, read_tolerance
from ..tensors.compare import Target
from ..tensors.flat import to_main_memory
from .effects import Called, called
from .other_kernels import by_other_kernels, in_tf32
from .problem import ReferenceProblem
from .tie_order import ORDERS, TieOrder
from .user_values import explained

NEARLY_EQUAL = -32.0, 32.0
"""Epsilons of the outputs by which computed scores are moved, and the opposite: one of both exchanges neighbours."""
FAR = 32 * 2.0**-23
"""Inputs move by so much to find what jumps: a sum of many large numbers is off by as much, in any order, and one
movement by an epsilon may miss the only row in thousands whose softmax hangs on it. Of outputs of lower precision an
epsilon is more."""
ORDERED = 1 << 24
"""Elements: larger answers lie in order."""
FEW, FEW_SHAKES = 4096, 2
"""The movement of so few numbers may be small by chance, however large the inputs are: that of two is taken then."""


def targets_of(
    reference: ReferenceProblem,
    problem: Open,
    inputs: list[Any],
    *,
    shake: bool = False,
    first: Called | None = None,
    earlier: Sequence[list[Any]] = (),
    check: Callable[[Target], None] | None = None,
    quick: bool = False,
) -> list[Target]:
    """Oracle and own error for every output of the reference on ``inputs``, which stay as they are, and for the state
    that it leaves.

    With ``shake`` the bounds also know how far the answer moves when every input moves by an epsilon of the outputs:
    the farthest of several movements, of one where inputs are large and outputs have many numbers. Elements that jump
    (:mod:`..tensors.jumps`) are found everywhere.
    ``first`` is the reference's call on ``inputs`` where that was made already, and is emptied; calls on ``earlier``
    come before it. ``check`` is shown every answer as soon as one run in float64 is there, and what is not stable once
    more when inputs were moved; it may raise: what jumps there jumps in the end, too. If nothing does, ``quick`` leaves
    it at that, and no target is returned: nobody is to be judged.

    Of a large output at most two answers in float64 are there at once: that to moved inputs is measured and let go of,
    and computed once more where something jumps.

    Raises:
        Refused: the reference fails on them, or returns nothing that can be compared; or float64 needs more memory
            than there is.
    """
    first = called(reference, problem, inputs, earlier) if first is None else first
    native, entries = first.answer, first.entries
    parts = [*(None for _ in first.outputs), *entries]
    first.outputs.clear()
    kept = [index for index, entry in enumerate(parts) if entry is not None and entry.tensor < 0]
    strange = next((leaf for leaf in native if not isinstance(leaf, torch.Tensor | int | float | None)), None)
    if strange is not None:
        raise Refused(f"{problem.name}.py: the reference returns a {type(strange).__name__}; return tensors or numbers")
    shared = [isinstance(leaf, torch.Tensor) and overlaps(leaf.shape, leaf.stride()) for leaf in native]
    _put_in_order(native)
    to_main_memory(native, kept)

    def precise_for(share: float, seed: int = 0) -> list[Any]:
        answer = _precise(problem, len(parts), lambda: reference.precise(inputs, share, seed, entries, earlier))
        return to_main_memory(answer, kept)

    def moved_for(share: float, seed: int) -> list[Any]:
        answer = precise_for(share, seed)
        for index, measure in measures.items():
            answer[index] = measure.measured(answer[index], functools.partial(precise_for, share, seed), index)
        return answer

    # Where it does not run in float64, it is its own oracle, in its own precision (see bounds.OWN_PRECISION).
    with TieOrder() as ties:
        precise = precise_for(0.0)
    tolerance = read_tolerance(reference.tolerance)
    epsilon, count = epsilon_of(native), _movements(inputs, native) if shake else 0
    share = far_share(epsilon)
    is_moved = ties.met_step or (shake and epsilon < share)
    # The order of equal numbers excuses what jumps, and a tolerance what does not.
    is_checked = check is not None and not (ties.met or ties.met_computed or tolerance.is_given)
    # Before anything is checked: own errors like these say what is right.
    permitted = in_tf32(reference, problem, inputs, earlier, native)
    to_main_memory(permitted, kept if permitted else ())
    measures: dict[int, Target] = {}
    shaken: list[list[Any]] = []

    def check_early(epsilons: float) -> bool:
        """Whether something jumps, by what was computed so far; the rest can only find more."""
        answers = zip(native, precise, *shaken, strict=True)
        known = permitted or [None] * len(native)
        early = [
            Target(leaf, wide, tolerance, moved, permitted=tf32, far=[wide], epsilons=epsilons)
            for (leaf, wide, *moved), tf32 in zip(answers, known, strict=True)
        ]
        for target, entry in zip(early, parts, strict=True):
            target.entry = entry
            if check is not None and not (shaken and target.is_stable):
                check(target)
        return any(target.jumps for target in early)

    jumps = is_checked and check_early(math.inf)
    if quick and is_checked and not (jumps or ties.met_step):
        return []
    if count or is_moved:
        measures |= _measures(native, precise, tolerance)
    shaken += [moved_for(epsilon, seed) for seed in range(count)]
    if jumps and is_moved:
        check_early(share / epsilon)
    others = by_other_kernels(reference, problem, inputs, earlier, native)
    reordered: list[list[Any]] = []
    exchanged: list[list[Any]] = []
    for order in ORDERS if ties.met else ():
        with TieOrder(order=order):
            exchanged.append(precise_for(0.0))
    if ties.met_computed:
        for seed, way in itertools.product(range(2 if shake else 1), NEARLY_EQUAL):
            with TieOrder(move=way * epsilon, seed=seed):
                reordered.append(precise_for(0.0))
    ways = (share, -share) if values.size_of(inputs) <= REDRAWN_BYTES else (share,)
    far = [moved_for(way, count) for way in ways] if is_moved else []
    measures.clear()
    targets = []
    while native:
        # One after the other: a large output in float64 is let go of before the next one is looked at.
        targets.append(
            Target(
                native.pop(0),
                precise.pop(0),
                tolerance,
                [outputs.pop(0) for outputs in shaken],
                others.pop(0) if others else None,
                permitted.pop(0) if permitted else None,
                [outputs.pop(0) for outputs in far],
                [outputs.pop(0) for outputs in reordered],
                share / epsilon,
                share if ties.met_step else 0.0,
                exchanged=[outputs.pop(0) for outputs in exchanged],
            )
        )
        targets[-1].entry = parts[len(targets) - 1]
        targets[-1].overlaps = shared.pop(0)
    return targets


def _precise(problem: Open, count: int, compute: Callable[[], Any]) -> list[Any]:
    """The answer in float64; None for each part of it where there is no such thing."""
    try:
        outputs = values.leaves(attempt(compute))
    except Refused as refused:
        if refused.kind == "memory":
            # Not a reference without float64: that would be judged by another rule.
            raise explained(refused, problem, "cannot be computed in float64") from None
        return [None] * count
    if len(outputs) != count:
        return [None] * count
    _put_in_order(outputs)
    return outputs


def _measures(native: list[Any], precise: list[Any], tolerance: Tolerance) -> dict[int, Target]:
    """What measures how far large outputs move, by index: memory would hold few answers to moved inputs."""
    return {
        index: Target(leaf, wide, tolerance, is_kept=False)
        for index, (leaf, wide) in enumerate(zip(native, precise, strict=True))
        if wide is not None and isinstance(leaf, torch.Tensor) and _is_large(leaf)
    }


def _put_in_order(answers: list[Any]) -> None:
    """Lay out large tensors one element behind the other, one tensor at a time: whoever compares them would copy each
    of them for that, and keep both."""
    for index, answer in enumerate(answers):
        if isinstance(answer, torch.Tensor) and answer.numel() > ORDERED:
            answers[index] = answer.detach().contiguous()


def epsilon_of(outputs: list[Any]) -> float:
    """Distance from 1 to the next number in the most precise floating type among ``outputs``."""
    epsilons = [
        torch.finfo(output.dtype).eps for output in outputs if isinstance(output, torch.Tensor) and _is_floating(output)
    ]
    return float(min(epsilons, default=torch.finfo(torch.float32).eps))


def far_share(epsilon: float) -> float:
    """By how much inputs move to find what jumps in answers of such an epsilon."""
    return min(32 * epsilon, max(FAR, epsilon))


def _movements(inputs: list[Any], outputs: list[Any]) -> int:
    if values.size_of(inputs) <= SMALL_BYTES:
        return SHAKES
    return FEW_SHAKES if any(map(_is_few, outputs)) else 1


def _is_few(output: Any) -> bool:
    return isinstance(output, float) or (
        isinstance(output, torch.Tensor) and _is_floating(output) and output.numel() <= FEW
    )


def _is_large(tensor: torch.Tensor) -> bool:
    return _is_floating(tensor) and tensor.numel() > right_answer.LARGE


def _is_floating(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())
