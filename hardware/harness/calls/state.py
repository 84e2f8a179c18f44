"""A module's state between calls: read by name, compared with its start, and restored.

State is parameters, buffers (persistent or not) and attributes that are tensors, numbers or None, also in lists, tuples
and dictionaries. Names are those of ``state_dict`` and of attributes: ``norm.running_mean``, ``steps``, ``cache[0]``.
A candidate's process uses this, too, so what it needs of torch was bound before any candidate is imported.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..messages.state import ATTRIBUTE, BUFFER, INPUT, NOT_PERSISTENT, PARAMETER, StateEntry
from ..tensors import values
from ..tensors.flat import SMALL, side_by_side
from ..tensors.likeness import each_same
from .oracle import in_dtype

_TORCHS_OWN = frozenset(vars(torch.nn.Module())) | {"_is_full_backward_hook", "_compiled_call_impl"}
_NUMBERS = (bool, int, float, type(None))
_DEEPEST = 4
"""Lists in lists are followed so far."""
_clone, _copy, _copy_each = torch.Tensor.clone, torch.Tensor.copy_, torch._foreach_copy_
_detach = torch._C.TensorBase.detach
_numel, _is_contiguous = torch.Tensor.numel, torch.Tensor.is_contiguous
_is_conj, _is_neg = torch.Tensor.is_conj, torch.Tensor.is_neg
_detach_in_place = torch._C.TensorBase.detach_
_vars = vars


@dataclass(frozen=True)
class StateMember:
    """One parameter, buffer or attribute."""

    owner: Any
    """The module that has it."""
    key: str
    kind: str
    value: Any


class Setup(NamedTuple):
    """What a candidate's module is made with."""

    positional: list[Any]
    """Arguments of its constructor."""
    named: dict[str, Any]
    """The constructor's others."""
    weights: dict[str, torch.Tensor]
    """The reference's ``state_dict``."""
    beside: dict[str, Any]
    """Buffers that ``state_dict`` leaves out, and attributes."""
    seed: int
    """Under which the reference's module was constructed; inputs have others."""
    on_device: bool
    """Whether the device's generator drew the reference's weights."""


def beside(module: Any, weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What ``module`` keeps beside its ``weights`` and can be sent to another process."""
    return {
        name: member.value
        for name, member in held(module).items()
        if name not in weights and values.is_packable(member.value)
    }


def held(module: Any) -> dict[str, StateMember]:
    """Everything that ``module`` and its submodules keep, by qualified name."""
    members: dict[str, StateMember] = {}
    registered: set[int] = set()
    for prefix, owner in _modules(module):
        for key, value in owner._parameters.items():
            members[prefix + key] = StateMember(owner, key, PARAMETER, value)
            registered.add(id(value))
        for key, value in owner._buffers.items():
            kind = NOT_PERSISTENT if key in owner._non_persistent_buffers_set else BUFFER
            members[prefix + key] = StateMember(owner, key, kind, value)
            registered.add(id(value))
    for prefix, owner in _modules(module):
        for key, value in _vars(owner).items():
            # A list of what is registered (the weights of an RNN) is no state of its own.
            if key not in _TORCHS_OWN and _is_kept(value) and not _is_made_of(value, registered):
                members[prefix + key] = StateMember(owner, key, ATTRIBUTE, value)
    return members


def roles(module: Any) -> dict[str, str]:
    """Which of the module's tensors are parameters, which are buffers, and which of these ``state_dict`` leaves out."""
    return {
        name: member.kind
        for name, member in held(module).items()
        if member.kind != ATTRIBUTE and isinstance(member.value, torch.Tensor)
    }


def read(module: Any) -> dict[str, tuple[str, Any]]:
    """Kind and value of everything, down to single tensors and numbers."""
    return {
        name: (member.kind, value)
        for path, member in held(module).items()
        for name, value in parts_of(path, member.value)
    }


def whole_of(name: str) -> str:
    """The attribute that ``name`` is a part of."""
    return name.partition("[")[0]


def cloned(value: Any) -> Any:
    """A copy with tensors of its own."""
    return values.mapped(value, lambda tensor: _clone(_detach(tensor)))


def _copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy into the first of each pair the second; few launches for all: a network has hundreds of buffers."""
    alike: dict[Any, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for target, source in pairs:
        if _is_conj(target) or _is_neg(target):
            _copy(target, source)
            continue
        targets, sources = alike.setdefault((target.dtype, target.device, source.dtype, source.device), ([], []))
        targets.append(target)
        sources.append(source)
    for targets, sources in alike.values():
        _copy_each(targets, sources)


def in_precision(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """A copy of ``module`` whose parameters, buffers and attributes are in ``dtype``."""
    # Not `module.to`: that takes the imaginary part from complex buffers.
    converted: torch.nn.Module = copy.deepcopy(module)._apply(lambda tensor: in_dtype(tensor, dtype))
    for member in held(converted).values():
        if member.kind == ATTRIBUTE:
            _vars(member.owner)[member.key] = values.mapped(member.value, lambda tensor: in_dtype(tensor, dtype))
    return converted


class InPrecision:
    """A module in another precision, as it was at its start whenever it is asked for.

    Small ones are made once: to copy hundreds of tensors takes longer than to put back what a call changed.
    """

    KEPT_BYTES = 64 << 20
    """Of the module's weights."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        """``module`` is at its start."""
        self._module, self._dtype = module, dtype
        self._kept: tuple[torch.nn.Module, Start] | None = None

    def at_the_start(self) -> torch.nn.Module:
        """The module; the next call of this changes what the last one gave."""
        if self._kept is not None:
            converted, start = self._kept
            start.restore()
            return converted
        converted = in_precision(self._module, self._dtype)
        if sum(weight.nbytes for weight in (*self._module.parameters(), *self._module.buffers())) <= self.KEPT_BYTES:
            start = Start(converted)
            start.keep()
            self._kept = converted, start
        return converted


def after_call(entries: Sequence[StateEntry], arguments: Sequence[Any], module: Any) -> list[Any]:
    """Copies of what ``entries`` name, as a call on ``arguments`` left it; None where there is no such thing."""
    tensors = values.tensors_of(arguments)
    module_state = read(module) if any(entry.kind != INPUT for entry in entries) else {}
    left = [
        tensors[entry.tensor] if entry.kind == INPUT else module_state.get(entry.name, ("", None))[1]
        for entry in entries
    ]
    copies = iter(_copies([_detach(tensor) for tensor in values.tensors_of(left)]))
    copied: list[Any] = values.mapped(left, lambda tensor: next(copies))
    return copied


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A copy of each, small ones of a dtype side by side."""
    together: dict[Any, list[int]] = {}
    copies = list(tensors)
    for index, tensor in enumerate(tensors):
        if 0 < _numel(tensor) <= SMALL and _is_contiguous(tensor):
            together.setdefault((tensor.dtype, tensor.device), []).append(index)
        else:
            copies[index] = _clone(tensor)
    for indices in together.values():
        for index, copied in zip(indices, side_by_side([tensors[index] for index in indices]), strict=True):
            copies[index] = copied
    return copies


def with_state(call: Callable[..., Any], entries: Sequence[StateEntry], module: Any) -> Callable[..., list[Any]]:
    """``call``, which also returns what it left behind; its outputs are out of reach of the next call."""

    def call_with_state(*arguments: Any) -> list[Any]:
        outputs = values.leaves(call(*arguments))
        if entries and module is not None and lie_in(outputs, [value for _, value in read(module).values()]):
            outputs = [*map(cloned, outputs)]
        return [*outputs, *after_call(entries, arguments, module)]

    return call_with_state


def lie_in(outputs: list[Any], owners: list[Any]) -> bool:
    """Whether one of the tensors among ``outputs`` has its memory from ``owners``."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in values.tensors_of(owners)} - {0}
    return any(tensor.untyped_storage().data_ptr() in taken for tensor in values.tensors_of(outputs))


class Start:
    """What a module kept before its first call."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._names = frozenset(held(module))
        self._snapshot: dict[str, tuple[StateMember, Any]] = {}

    def keep(self, names: Iterable[str] | None = None, given: dict[str, Any] | None = None) -> None:
        """Remember what is there now, or what is ``given``; of what ``names`` name, or of everything."""
        present = held(self._module)
        for name in present if names is None else names:
            if name in present and name not in self._snapshot:
                value = (given or {}).get(name, present[name].value)
                self._snapshot[name] = present[name], cloned(value)

    def restore(self, names: Iterable[str] | None = None) -> None:
        """Put back what ``names`` name, or everything; what came later goes."""
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        for name in list({**self._snapshot, **held(self._module)}) if names is None else names:
            if name in self._snapshot:
                _put(*self._snapshot[name], pairs)
            elif name not in self._names and (new := held(self._module).get(name)):
                _tables(new.owner)[new.kind].pop(new.key, None)
        _copy_all(pairs)

    def changed(self) -> dict[str, str]:
        """Names and kinds of what is not what it was; everything must have been remembered."""
        before = {n: (h.kind, v) for name, (h, value) in self._snapshot.items() for n, v in parts_of(name, value)}
        now = read(self._module)
        nothing = ("", None)
        names = list({**before, **now})
        alike = each_same((before.get(name, nothing)[1], now.get(name, nothing)[1]) for name in names)
        return {
            name: now.get(name, before.get(name, nothing))[0]
            for name, is_same in zip(names, alike, strict=True)
            if not is_same
        }


def _put(was: StateMember, start: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Put the value of ``start`` in its place; what tensors hold is left to ``pairs``, whose first is to get it."""
    value = was.value
    if isinstance(value, torch.Tensor) and isinstance(start, torch.Tensor):
        if not value.is_leaf and not value._is_view():
            # A call with gradients on left its graph there.
            _detach_in_place(value)
        if value.shape == start.shape and value.dtype == start.dtype:
            pairs.append((_detach(value), start))
        else:
            value.data = _clone(start)
    else:
        value = cloned(start)
    table = _tables(was.owner)[was.kind]
    if (table if type(table) is dict else dict(table.items())).get(was.key) is value:
        return
    if isinstance(was.owner, torch.jit.ScriptModule):
        setattr(was.owner, was.key, value)
        return
    for other_table in _tables(was.owner).values():
        other_table.pop(was.key, None)
    table[was.key] = value


def _tables(owner: Any) -> dict[str, Any]:
    buffers = owner._buffers
    return {PARAMETER: owner._parameters, BUFFER: buffers, NOT_PERSISTENT: buffers, ATTRIBUTE: _vars(owner)}


def _modules(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _modules(child, f"{prefix}{name}.")


def _is_kept(value: Any, depth: int = 0) -> bool:
    if isinstance(value, torch.Tensor):
        uninitialized = isinstance(value, torch.nn.parameter.UninitializedTensorMixin)
        return value.layout == torch.strided and not uninitialized
    if type(value) in (list, tuple, dict) and depth < _DEEPEST:
        items = value.values() if isinstance(value, dict) else value
        return all(_is_kept(item, depth + 1) for item in items)
    return type(value) in _NUMBERS


def _is_made_of(value: Any, registered: set[int]) -> bool:
    tensors = values.tensors_of([value])
    return bool(tensors) and all(id(tensor) in registered for tensor in tensors)


def parts_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Single tensors and numbers of ``value``, with their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from parts_of(f"{name}[{key!r}]", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from parts_of(f"{name}[{index}]", item)
    else:
        yield name, value
