"""What a call of the reference returns, and what it changes: its module's state, and inputs that it writes in place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ....schemas import ProblemFormat, StateFact
from ..calls.answering import Refused, attempt
from ..calls.state import after_call, cloned, lie_in, read, whole_of
from ..messages.commands import Open
from ..messages.state import INPUT, StateEntry
from ..tensors import values
from ..tensors.likeness import same
from .problem import ReferenceProblem
from .user_values import explained

CALLS = 3
"""So many calls in a row show what a call makes of the state that the one before it left."""

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""What norms keep beside what they compute: no module is written for that alone."""


@dataclass(frozen=True)
class Called:
    """One call of the reference, in its own precision."""

    outputs: list[Any]
    """Flattened."""
    entries: tuple[StateEntry, ...]
    """What it, or a call before it, changed."""
    state: list[Any]
    """What it left of these."""
    aliased: bool
    """Whether outputs lie in the state, or in inputs that it writes."""
    passes_on: bool
    """Whether outputs lie in inputs of a call that changes nothing."""

    @property
    def answer(self) -> list[Any]:
        """Outputs, and behind them the state."""
        return [*self.outputs, *self.state]


def called(
    reference: ReferenceProblem,
    problem: Open,
    inputs: list[Any],
    earlier: Sequence[list[Any]] = (),
    *,
    shape: str = "",
) -> Called:
    """Call the reference on ``inputs``, which stay as they are, from the start, or after calls on ``earlier`` ones.

    ``shape`` is the problem's own that they were drawn at, for the message.

    Raises:
        Refused: it raised or returned nothing; the message is a sentence for the user.
    """
    reference.restart()
    call: Callable[..., Any] = reference.call
    kinds: dict[str, str] = {}
    try:
        for before in earlier:
            attempt(lambda before=before: call(*copies(before)))  # type: ignore[misc]
            kinds |= reference.changed()
        taken = copies(inputs)
        outputs = values.leaves(attempt(lambda: call(*taken)))
    except Refused as refused:
        name = "Model.forward" if problem.format is ProblemFormat.kernelbench else "reference"
        place = _place(reference, shape, inputs) if shape else ""
        raise explained(refused, problem, f"{name}(...) fails on its own inputs{place}") from None
    kinds |= reference.changed()
    entries = (*_written(reference, inputs, taken), *(StateEntry(name=name, kind=kind) for name, kind in kinds.items()))
    if all(leaf is None for leaf in outputs) and all(entry.name.endswith(_STATISTICS) for entry in entries):
        also = ", and all it leaves are statistics of its norms" if entries else ""
        raise Refused(f"{problem.name}.py: the reference returns nothing{also}; return a tensor or a tuple of tensors")
    state = after_call(entries, taken, reference.module)
    aliased = bool(entries) and lie_in(outputs, [taken, _module_values(reference)])
    passes_on = not entries and lie_in(outputs, taken)
    return Called(cloned(outputs) if entries else outputs, entries, state, aliased, passes_on)


def _place(reference: ReferenceProblem, shape: str, inputs: list[Any]) -> str:
    """The shape, its sizes, and the tensors that were drawn there."""
    sizes = [f"{name}={size}" for name, size in reference.sizes.get(shape, {}).items()]
    named = zip(names_of(reference.signature, len(inputs)), inputs, strict=True)
    tensors = [f"{name} {list(value.shape)}" for name, value in named if isinstance(value, torch.Tensor)]
    return f" at shape {shape!r} ({'; '.join(filter(None, (', '.join(sizes), ', '.join(tensors))))})"


def facts_of(entries: Sequence[StateEntry]) -> tuple[StateFact, ...]:
    """``entries`` as the search knows them: whole attributes, each once."""
    return tuple(dict.fromkeys(StateFact(name=whole_of(entry.name), kind=entry.kind) for entry in entries))


def copies(inputs: list[Any]) -> list[Any]:
    """``inputs`` with tensors of their own that lie in memory as these do."""
    copied: list[Any] = values.mapped(inputs, values.copied)
    return copied


def names_of(signature: tuple[str, ...], count: int) -> list[str]:
    """A name for each input; those of a variadic parameter are numbered."""
    if len(signature) >= count:
        return list(signature[:count])
    last = signature[-1] if signature else "argument"
    head = list(signature[:-1])
    return head + [f"{last}_{index}" for index in range(count - len(head))]


def _written(reference: ReferenceProblem, inputs: list[Any], taken: list[Any]) -> list[StateEntry]:
    """The input tensors that a call changed."""
    named = zip(names_of(reference.signature, len(inputs)), inputs, strict=True)
    names = [
        name if isinstance(value, torch.Tensor) else f"{name}[{index}]"
        for name, value in named
        for index, _ in enumerate(values.tensors_of([value]))
    ]
    pairs = zip(names, values.tensors_of(inputs), values.tensors_of(taken), strict=True)
    return [
        StateEntry(name=name, kind=INPUT, tensor=index)
        for index, (name, before, after) in enumerate(pairs)
        if not same(before, after)
    ]


def _module_values(reference: ReferenceProblem) -> list[Any]:
    return [] if reference.module is None else [value for _, value in read(reference.module).values()]
