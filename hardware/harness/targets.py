"""What is right for given inputs: the reference's outputs, in its own precision and in float64."""

from collections.abc import Callable
from typing import Any

import torch

from ...schemas import ProblemFormat
from . import values
from .answering import Refused, attempt
from .bounds import SHAKES, read_tolerance
from .compare import Target
from .kinds import SMALL_BYTES
from .messages import Open
from .subject import Subject, explained


def targets_of(
    subject: Subject, problem: Open, inputs: list[Any], *, shake: bool = False, native: list[Any] | None = None
) -> list[Target]:
    """Oracle and own error for every output of the reference on ``inputs``, which stay as they are.

    With ``shake`` the bounds also know how far the answer moves when every input moves by an epsilon of the outputs:
    the farthest of several movements, of one where inputs are large.
    ``native`` are the reference's outputs on ``inputs`` where they are known already.

    Raises:
        Refused: the reference fails on them, or returns nothing that can be compared; or float64 needs more memory
            than there is.
    """
    native = reference_outputs(subject, problem, inputs) if native is None else list(native)
    # Where it does not run in float64, it is its own oracle, in its own precision (see bounds.OWN_PRECISION).
    precise = _precise(subject, problem, inputs, len(native))
    count = 0 if not shake else SHAKES if values.size_of(inputs) <= SMALL_BYTES else 1
    epsilon = _epsilon(native)
    shaken = [_precise(subject, problem, inputs, len(native), epsilon, seed) for seed in range(count)]
    tolerance = read_tolerance(subject.tolerance)
    for leaf in native:
        if not isinstance(leaf, torch.Tensor | int | float | None):
            raise Refused(
                f"{problem.name}.py: the reference returns a {type(leaf).__name__}; return tensors or numbers"
            )
    targets = []
    while native:
        # One after the other: a large output in float64 is let go of before the next one is looked at.
        targets.append(Target(native.pop(0), precise.pop(0), tolerance, [outputs.pop(0) for outputs in shaken]))
    return targets


def _precise(
    subject: Subject, problem: Open, inputs: list[Any], count: int, shake: float = 0.0, seed: int = 0
) -> list[Any]:
    """The outputs in float64; None for each where there is no such thing."""
    try:
        found = values.leaves(attempt(lambda: subject.precise(inputs, shake, seed)))
    except Refused as refused:
        if refused.kind == "memory":
            # Not a reference without float64: that would be judged by another rule.
            raise explained(refused, problem, "cannot be computed in float64") from None
        return [None] * count
    return found if len(found) == count else [None] * count


def _epsilon(outputs: list[Any]) -> float:
    """Distance from 1 to the next number in the most precise floating type among ``outputs``."""
    found = [torch.finfo(one.dtype).eps for one in outputs if isinstance(one, torch.Tensor) and _is_floating(one)]
    return float(min(found, default=torch.finfo(torch.float32).eps))


def _is_floating(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def reference_outputs(subject: Subject, problem: Open, inputs: list[Any]) -> list[Any]:
    """The reference's outputs, flattened.

    Raises:
        Refused: it raised or returned nothing; the message is a sentence for the user.
    """
    call: Callable[..., Any] = subject.call
    try:
        native = values.leaves(attempt(lambda: call(*copies(inputs))))
    except Refused as refused:
        name = "Model.forward" if problem.format is ProblemFormat.kernelbench else "reference"
        raise explained(refused, problem, f"{name}(...) fails on its own inputs") from None
    if not native or all(leaf is None for leaf in native):
        raise Refused(f"{problem.name}.py: the reference returns nothing; return a tensor or a tuple of tensors")
    return native


def copies(inputs: list[Any]) -> list[Any]:
    """``inputs`` with tensors of their own that lie in memory as these do."""
    made: list[Any] = values.mapped(inputs, values.copied)
    return made
