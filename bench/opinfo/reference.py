"""What a sample's operator returns and leaves, and how far from that a draft may be: by the judge's own measure."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...hardware.harness.calls.oracle import in_float64
from ...hardware.harness.reference.targets import epsilon_of
from ...hardware.harness.tensors import values
from ...hardware.harness.tensors.bounds import Tolerance
from ...hardware.harness.tensors.compare import Target
from ...hardware.harness.tensors.likeness import repeats
from .sample import Sample

_SHAKES = 2
_SEEDS = 5
"""Of random numbers: small results may be the same by chance."""
_UNINITIALISED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
"""Operators whose result is whatever lies in memory."""


class Excluded(Exception):
    """No answer is right on this sample; the message says why."""


@dataclass(frozen=True)
class Call:
    """One call: results, then inputs and state as they are after it."""

    results: Any
    after: list[Any]

    @property
    def leaves(self) -> list[Any]:
        """All of it, flattened."""
        return [*values.leaves(self.results), *values.leaves(self.after)]


def call(target: Any, inputs: Sequence[Any], state: Callable[[], Sequence[Any]] = tuple) -> Call:
    """Call ``target`` on copies of ``inputs``; ``state`` gives what it may have changed beside them."""
    taken = copied(inputs)
    with torch.no_grad():
        results = target(*taken)
    return Call(results, [*_tensors(taken), *state()])


def copied(inputs: Sequence[Any]) -> list[Any]:
    """The same inputs in memory of their own, laid out alike."""
    return [copy.deepcopy(value) for value in inputs]


def state_of(module: Any) -> Callable[[], Sequence[Any]]:
    """What a module keeps, as it is when this is called."""
    if not isinstance(module, torch.nn.Module):
        return tuple
    return lambda: [value.detach().clone() for _, value in sorted(_named(module).items())]


def _named(module: torch.nn.Module) -> dict[str, Any]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


class Reference:
    """A sample's right answer.

    Raises:
        Excluded: there is none.
    """

    def __init__(self, sample: Sample, name: str) -> None:
        if name.split(".")[0] in _UNINITIALISED:
            raise Excluded("uninitialised: its result is whatever lies in memory")
        self.sample = sample
        self.answer = self._called(0)
        self._check_dense()
        if not _repeats(self.answer, self._called(0)):
            raise Excluded("nondeterministic: two calls under one seed differ")
        if not all(_repeats(self.answer, self._called(seed)) for seed in range(1, _SEEDS)):
            raise Excluded("random: it draws numbers")
        self.targets = self._targets()
        for target in self.targets:
            if doubt := target.doubt(may_be_nan=True):
                raise Excluded(f"ill-conditioned: {doubt}")

    def differences(self, answer: Call) -> str:
        """Why another answer is not the same; empty if it is. Who hands the file over makes named tuples of tuples."""
        if len(answer.leaves) != len(self.targets):
            return f"it returns and leaves {len(answer.leaves)} tensors and numbers instead of {len(self.targets)}"
        for place, (target, got) in enumerate(zip(self.targets, answer.leaves, strict=True)):
            if target.accepts(got):
                continue
            what = f"result {place}" if place < len(self.answer.leaves) - len(self.answer.after) else "what it leaves"
            if not target.fits(got):
                return f"{what} is {_kind(got)} instead of {target.dtype or target.kind} of {list(target.shape)}"
            flat = got.detach().contiguous() if isinstance(got, torch.Tensor) else torch.tensor([got])
            flat = torch.view_as_real(flat.resolve_conj()) if flat.is_complex() else flat
            error, _ = target.error(iter([flat.resolve_neg().reshape(-1)]))
            return f"{what} is off by {error:.2g}, allowed {target.bound:.2g}"
        return ""

    def _called(self, seed: int) -> Call:
        torch.manual_seed(seed)
        target = self.sample.fresh()
        return call(target, self.sample.inputs, state_of(target))

    def _check_dense(self) -> None:
        for leaf in (*values.leaves(self.sample.inputs), *self.answer.leaves):
            if not isinstance(leaf, torch.Tensor):
                continue
            if leaf.is_nested:
                raise Excluded("nested: its tensors have rows of different lengths")
            if leaf.layout is not torch.strided:
                raise Excluded(f"sparse: its tensors are {str(leaf.layout).removeprefix('torch.')}")
            if leaf.is_quantized:
                raise Excluded("quantized: its tensors hold numbers with a scale")

    def _targets(self) -> list[Target]:
        native = self.answer.leaves
        precise = self._precise(len(native))
        epsilon = epsilon_of(native)
        shaken = [self._precise(len(native), epsilon, seed) for seed in range(_SHAKES)]
        tolerance = Tolerance()
        return [
            Target(leaf, exact, tolerance, [moved[place] for moved in shaken])
            for place, (leaf, exact) in enumerate(zip(native, precise, strict=True))
        ]

    def _precise(self, count: int, shake: float = 0.0, seed: int = 0) -> list[Any]:
        target = self.sample.precise()

        def whole(*inputs: Any) -> Any:
            torch.manual_seed(0)
            result = target(*inputs)
            return [result, _tensors(inputs), list(state_of(target)())]

        try:
            with torch.no_grad():
                leaves = values.leaves(in_float64(whole, copied(self.sample.inputs), shake, seed))
        except Exception:  # noqa: BLE001 - what does not run in float64 is its own oracle
            return [None] * count
        return leaves if len(leaves) == count else [None] * count


def _tensors(inputs: Any) -> list[Any]:
    return [leaf for leaf in values.leaves(list(inputs)) if isinstance(leaf, torch.Tensor)]


def _repeats(first: Call, second: Call) -> bool:
    left, right = first.leaves, second.leaves
    return len(left) == len(right) and all(map(repeats, left, right))


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of {list(value.shape)}"
    return type(value).__name__
