"""Operators whose answer leaves open which of equal numbers comes first.

``topk`` of a row of zeros returns some of its places. Another kernel that returns others is as right, so inputs on
which the answer hangs on that order say nothing of candidates. (``argmax`` and ``max`` return the first: defined.)

Of scores that were computed, such as a softmax, each implementation rounds differently. So nearly equal ones may come
in either order, too; those that are inputs are the same for everybody.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

REVERSED, FIRST, LAST = "reversed", "first", "last"
ORDERS = (REVERSED, FIRST, LAST)
"""Ways to take equal numbers: the operator's own from the other end, and by their places, the first or the last ones
first, as reductions of other kernels do."""

_aten = torch.ops.aten
_UNDEFINED = frozenset({_aten.topk, _aten.sort, _aten.kthvalue, _aten.median, _aten.nanmedian, _aten.mode})
"""Those that return values and places along a dimension."""
_STEPS = frozenset(
    getattr(_aten, name)
    for name in (
        *("round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "floor_divide", "sign", "sgn", "heaviside"),
        *("gt", "ge", "lt", "le", "eq", "ne", "argmax", "argmin", "max", "min", "cummax", "cummin", "sort"),
        *("searchsorted", "bucketize", "threshold", "hardshrink"),
        # Slopes of what has corners.
        *("threshold_backward", "hardtanh_backward", "hardswish_backward", "hardsigmoid_backward", "elu_backward"),
        *("leaky_relu_backward", "rrelu_with_noise_backward", "_prelu_kernel_backward", "hardshrink_backward"),
        *("softshrink_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
        *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
    )
)
"""Those whose answer may jump where a number moves: of ``max`` and ``min`` the places."""


class TieOrder(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether such an operator met equal numbers; ``order``: has it take them in one of :data:`ORDERS`.

    ``move``: computed numbers are off by such a share at most, drawn from ``seed``; by the opposite with a minus.
    """

    def __init__(self, *, order: str = "", move: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self._order = order
        self._move, self._seed = move, seed
        self.met = False
        """Whether one met equal numbers so far."""
        self.met_step = False
        """Whether the answer may jump where numbers move, at a rounding or a comparison."""
        self.met_computed = False
        """Whether one met numbers that were computed in float64: no input in a lower precision is like that."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.met_step = self.met_step or is_step(func, args, kwargs)
        if func.overloadpacket not in _UNDEFINED:
            return func(*args, **kwargs)
        given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        values, dim = given["self"], given.get("dim", -1)
        # Without a dimension a median has no place; a stable sort is defined.
        if given.get("stable") or len(func._schema.returns) < 2 or not values.dim():
            return func(*args, **kwargs)
        last = values.shape[dim] - 1
        is_computed = last > 0 and _is_computed(values)
        if self._move and is_computed:
            return func(_moved(values, self._move, self._seed), *args[1:], **kwargs)
        met = last > 0 and _has_equals(torch.sort(values, dim).values, dim)
        self.met = self.met or met
        self.met_computed = self.met_computed or is_computed
        if not met or not self._order:
            return func(*args, **kwargs)
        if self._order == FIRST:
            return _by_place(func, given, values, dim) or func(*args, **kwargs)
        chosen, places = (self._order == LAST and _by_place(func, given, values.flip(dim), dim)) or func(
            values.flip(dim), *args[1:], **kwargs
        )
        return chosen, last - places


def _by_place(func: Any, given: dict[str, Any], values: Any, dim: int) -> tuple[Any, Any] | None:
    """What ``topk`` and ``sort`` give if equal numbers stay in their order; None for other operators."""
    if func.overloadpacket is _aten.topk:
        ordered = torch.sort(values, dim=dim, descending=given.get("largest", True), stable=True)
        return ordered.values.narrow(dim, 0, given["k"]), ordered.indices.narrow(dim, 0, given["k"])
    if func.overloadpacket is _aten.sort:
        ordered = torch.sort(values, dim=dim, descending=given.get("descending", False), stable=True)
        return ordered.values, ordered.indices
    return None


def is_step(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator's answer may jump where a number of its first argument moves."""
    if not args or not isinstance(args[0], torch.Tensor) or not args[0].is_floating_point():
        return False
    if func.overloadpacket is _aten._to_copy:
        return kwargs.get("dtype") not in (None, torch.float64)
    is_place = func.overloadpacket in (_aten.max, _aten.min) and len(func._schema.returns) < 2
    return func.overloadpacket in _STEPS and not is_place


def _moved(values: torch.Tensor, share: float, seed: int) -> torch.Tensor:
    generator = torch.Generator(values.device).manual_seed(seed)
    moves = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=values.device)
    return moves.mul_(2).sub_(1).mul_(share).add_(1).mul_(values)


def _is_computed(values: torch.Tensor) -> bool:
    return values.dtype == torch.float64 and not bool((values.float() == values).logical_or(values.isnan()).all())


def _has_equals(ordered: torch.Tensor, dim: int) -> bool:
    """Whether neighbours are equal; NaN are equal to one another, as sorting has it."""
    count = ordered.shape[dim] - 1
    one, next_one = ordered.narrow(dim, 0, count), ordered.narrow(dim, 1, count)
    return bool(((one == next_one) | (one.isnan() & next_one.isnan())).any())
