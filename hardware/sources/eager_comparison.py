"""An operator and the text for it, run side by side with inputs of some sizes: do they do the same there?"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .agreement import disagreement
from .call_arguments import by_place_and_name
from .drawn_inputs import copied
from .dynamic_shapes import DynamicSize, resized
from .from_python import Traced
from .module_state import called, contents_of, restored, settings
from .random_state import random_state_kept

_ALIASES = {"aten.lift_fresh.default", "aten.lift_fresh_copy.default", "aten.detach.default", "aten.alias.default"}
"""What the operator calls for its constants, and the text, which is given them, does not; or the other way round."""
_OTHER_OPERATORS = "it calls other operators"


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    """The operators that are called, each with its arguments and the shapes of its results."""

    def __init__(self, held: Sequence[torch.Tensor]) -> None:
        """``held`` are told apart: numbers do not tell a bias of zeros from another."""
        super().__init__()
        self.rows: list[str] = []
        self._places = {value.untyped_storage().data_ptr(): place for place, value in enumerate(held)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, arguments = str(func), tree_map(self._shown, (args, kwargs or {}))
        result = func(*args, **kwargs or {})
        if name not in _ALIASES:
            self.rows.append(f"{name} {arguments} {tree_map(self._shown, result)}")
        return result

    def _shown(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        memory = value.untyped_storage().data_ptr() if value.layout is torch.strided else None
        return f"{value.dtype} {tuple(value.shape)} in {self._places.get(memory)}"


class Comparison:
    """Runs both with copies of the operator's parameters, with gradients on, as it was traced.

    They need not call the same operators where they are the same, because a module may have a fast path that no trace
    takes. Then :attr:`sees_operators` is false, and results and what is written are all that is compared.
    """

    def __init__(
        self, first: Traced, reference: Callable[..., Any], dynamic: Sequence[DynamicSize], sizes: tuple[int, ...]
    ) -> None:
        """At ``sizes`` the text is the operator's."""
        operator: Any = first.operator
        self._first, self._reference, self._dynamic = first, reference, dynamic
        trained = dict(operator.named_parameters()) if isinstance(operator, torch.nn.Module) else {}
        needs_gradients = [name in trained and trained[name].requires_grad for name in first.names]
        needs_gradients += [False] * len(first.constants)
        self._own, self._given = (
            [copied(value).requires_grad_(flag) for value, flag in zip(first.parameters, needs_gradients, strict=True)]
            for _ in range(2)
        )
        self.sees_operators = self._is_usable = True
        """Whether operators are compared as well."""
        if self.difference(sizes) == _OTHER_OPERATORS:
            self.sees_operators = False
        self._is_usable = not self.difference(sizes)
        self.sees_operators = self.sees_operators and self._is_usable

    def difference(self, sizes: tuple[int, ...]) -> str:
        """What differs with inputs of ``sizes``; empty for nothing, or if they cannot be compared."""
        if not self._is_usable:
            return ""
        inputs = resized(self._first.inputs, self._dynamic, sizes)
        operator: Any = self._first.operator
        before, contents = settings(operator), contents_of(operator)
        own = {label: copied(value) if isinstance(value, torch.Tensor) else value for label, value in inputs.items()}
        given = [copied(value) for value in _tensors(inputs)]
        held = dict(zip(self._first.names, self._own, strict=False))
        versions = [value._version for value in (*self._own, *self._given)]
        try:
            with random_state_kept():  # the text draws the same numbers
                call = partial(called, operator, *by_place_and_name(operator, own), held)
                expected, operators = _run(call, [*_tensors(own), *held.values()])
            result, others = _run(partial(self._reference, *given, *self._given), [*given, *self._given[: len(held)]])
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises with sizes that nobody gave it
            return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        finally:
            changed = restored(operator, before, contents)
        if changed:
            return f"it changes its attribute {changed!r}"
        if self.sees_operators and operators != others:
            return _OTHER_OPERATORS
        left = [*tree_leaves(result), *given, *_written(self._given, versions[len(self._own) :])]
        right = [*tree_leaves(expected), *_tensors(own), *_written(self._own, versions)]
        with torch.no_grad():
            is_other = len(left) != len(right) or any(map(disagreement, left, right))
        return "its numbers are others" if is_other else ""


def _run(call: Callable[[], Any], held: Sequence[torch.Tensor]) -> tuple[Any, list[str]]:
    """A result of inputs and parameters that are ``held``, and the operators that gave it."""
    with torch.enable_grad(), _Operators(held) as mode:
        return call(), mode.rows


def _tensors(inputs: Mapping[str, Any]) -> list[torch.Tensor]:
    return [value for value in inputs.values() if isinstance(value, torch.Tensor)]


def _written(values: Sequence[torch.Tensor], versions: Sequence[int]) -> list[torch.Tensor]:
    """Those that are not as they were."""
    return [value for value, version in zip(values, versions, strict=False) if value._version != version]
