"""The timed process's side of timing from outside: a batch has a call on each input set and keeps all outputs."""

import functools
import gc
import itertools
import operator
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ...processes import wire
from ...processes.arguments import Values
from ...processes.messages import Done
from ..messages.batch import Batch, Form, Lay, Made, Warm
from ..tensors import values
from ..tensors.output_descriptions import name_of
from .answering import attempt
from .freed_outputs import spoil
from .restarts import Restarts

Call = Callable[..., Any]

_LARGEST_INT = 1 << 63
WARM_SETS = 8
"""Of which inputs that calls write are copied, so that untimed calls begin from the start."""


class Batches:
    """The arena as its process sees it, and the outputs of the last batch."""

    def __init__(self, channel: socket.socket) -> None:
        """``channel`` is where calls are answered that are made one by one."""
        self._channel = channel
        self._sets: list[list[Any]] = []
        self._written: list[list[Any]] = []
        """Of each set the tensors that its call writes."""
        self._warm_sets: list[list[Any]] = []
        """Of untimed calls: they go over the same sets again and again, each from the start."""
        self._outputs: list[Any] = []
        self._arena: values.MappedFile | None = None
        self._restarts: Restarts | None = None
        self._aliased = False
        self._stride = 0

    def lay(self, command: Lay, file: int, restarts: Restarts | None) -> Done:
        """Make tensors of the arena's memory, which calls write where they write inputs: each set is for one call."""
        self._outputs, self._sets, self._written = [], [], []
        is_written = restarts is not None and bool(restarts.written)
        self._arena = arena = values.MappedFile(file, command.stride * command.sets, shared=is_written)
        # The first look at a page takes longer than many a call.
        arena.touch()
        self._restarts, self._aliased = restarts, command.aliased
        self._stride = command.stride
        for slot in range(command.sets):
            self._take_set(slot, command.inputs[slot % len(command.inputs)])
        self._warm_sets = self._sets
        if restarts is not None and is_written:
            starts = (values.mapped(inputs, values.copied) for inputs in self._sets[:WARM_SETS])
            self._warm_sets = [restarts.begin_from(inputs) for inputs in starts]
        return Done()

    def _take_set(self, slot: int, described: Values) -> None:
        assert self._arena is not None
        inputs = values.viewed(described, self._arena, slot * self._stride)
        self._sets[slot : slot + 1] = [inputs]
        self._written[slot : slot + 1] = [self._restarts.written_of(inputs) if self._restarts is not None else []]

    def warm(self, call: Call, command: Warm) -> Done:
        """Let go of outputs, and make untimed calls on the inputs that are there."""
        spoil(self._outputs)
        self._outputs = []

        def calls() -> None:
            for inputs in itertools.islice(itertools.cycle(self._warm_sets), command.calls):
                call(*inputs)

        attempt(calls)
        return Done()

    def make(self, call: Call, command: Batch) -> Made:
        """One call on each of the first sets."""
        gc.disable()
        try:
            for slot, described in enumerate(command.inputs):
                self._take_set(slot, described)
            if command.one_by_one:
                return self._stepped(call, command)
            self._outputs = attempt(lambda: self._called(call, command.calls))
            return _described(self._outputs)
        finally:
            gc.enable()

    def _called(self, call: Call, calls: int) -> list[Any]:
        sets = self._sets[:calls]
        if self._restarts is None:
            return [call(*inputs) for inputs in sets]
        return [self._left(call(*inputs), slot) for slot, inputs in enumerate(sets)]

    def _left(self, output: Any, slot: int) -> Any:
        """What a call returned, and behind it what it left of the state."""
        restarts = self._restarts
        if restarts is None:
            return output
        if restarts.is_in_module:
            return restarts.left(output, self._sets[slot], aliased=self._aliased)
        # Only this call gets these inputs: nothing has to be copied.
        return [*values.leaves(output), *self._written[slot]]

    def _stepped(self, call: Call, command: Batch) -> Made:
        """Answer all calls but the last, and wait for the inputs of the next one each time; returns the last answer.

        The outputs of a call are let go before the next one: they have been read where anybody wants to.
        """
        self._outputs = []
        forms = _Forms()
        made: Made | None = None
        for slot in range(command.calls):
            if made is not None:
                self._channel.sendall(wire.frame(made))
                self._wait(slot, described=bool(command.inputs))
            self._outputs = []
            self._outputs.append(self._left(attempt(functools.partial(call, *self._sets[slot])), slot))
            made = forms.describe(self._outputs[0])
        return made or Made(forms=(), calls=())

    def _wait(self, slot: int, *, described: bool) -> None:
        """Until the inputs of the next call are there, which may come with their description."""
        if described:
            self._take_set(slot, wire.receive(self._channel, Values)[0])
        elif not self._channel.recv(1):
            raise EOFError("the supervisor is gone")


def _described(outputs: list[Any]) -> Made:
    """Where the outputs of every call lie. It is part of what is timed, so it looks at as little as it can.

    Tensors without gaps and of one size need no look at their shapes: the bytes that must be there decide.
    """
    columns = _columns(outputs)
    if columns and all(map(_are_alike, columns)):
        form = tuple(_form(*_key(column[0])) for column in columns)
        addresses = zip(*map(_addresses, columns), strict=True)
        return Made(forms=(form,), calls=tuple((0, *row) for row in addresses))
    indices: dict[Any, int] = {}
    rows = []
    for output in outputs:
        leaves = values.leaves(output)
        key = tuple(map(_key, leaves))
        rows.append((indices.setdefault(key, len(indices)), *map(_address, leaves)))
    return Made(forms=tuple(tuple(_form(*leaf_key) for leaf_key in key) for key in indices), calls=tuple(rows))


class _Forms:
    """The forms that outputs of calls made one by one had so far."""

    def __init__(self) -> None:
        self._indices: dict[Any, int] = {}
        self._last: tuple[Any, Any, Any] = _NONE
        self._index = 0

    def describe(self, output: Any) -> Made:
        """Where the outputs of one call lie; their form comes along if it is a new one.

        A tensor like the last one is told by three looks: a kernel's own loop would take none.
        """
        if type(output) is torch.Tensor and output.layout is _strided:
            dtype, shape, stride = self._last
            if output.dtype is dtype and output.shape == shape and output.stride() == stride:
                return Made(forms=(), calls=((self._index, output.data_ptr()),))
            self._last = output.dtype, output.shape, output.stride()
        else:
            self._last = _NONE
        leaves = values.leaves(output)
        key = tuple(map(_key, leaves))
        count = len(self._indices)
        self._index = self._indices.setdefault(key, count)
        new = (tuple(_form(*leaf_key) for leaf_key in key),) if self._index == count else ()
        return Made(forms=new, calls=((self._index, *map(_address, leaves)),))


_data_ptr, _is_contiguous, _numel = torch.Tensor.data_ptr, torch.Tensor.is_contiguous, torch.Tensor.numel
_strided, _NONE = torch.strided, (None, None, None)
_is_cpu = operator.attrgetter("is_cpu")


def _columns(outputs: list[Any]) -> list[Sequence[Any]]:
    """The tensors at each place of what the calls returned; nothing where calls return different numbers of them."""
    if set(map(type, outputs)) == {torch.Tensor}:
        return [outputs]
    rows = list(map(values.leaves, outputs))
    return list(zip(*rows, strict=True)) if len(set(map(len, rows))) == 1 else []


def _addresses(column: Sequence[Any]) -> Iterable[int]:
    return itertools.repeat(0, len(column)) if column[0] is None else map(_data_ptr, column)


def _are_alike(column: Sequence[Any]) -> bool:
    types = set(map(type, column))
    if types == {type(None)}:
        return True
    if types != {torch.Tensor} or len(set(map(_numel, column))) > 1:
        return False
    return all(map(_is_cpu, column)) and all(map(_is_contiguous, column))


def _key(leaf: Any) -> tuple[Any, ...]:
    kind = type(leaf)
    if kind is torch.Tensor and leaf.layout is torch.strided and leaf.is_cpu:
        return kind, leaf.dtype, leaf.shape, leaf.stride()
    if kind in (bool, float) or (kind is int and -_LARGEST_INT <= leaf < _LARGEST_INT):
        return kind, leaf
    return (kind,)


def _address(leaf: Any) -> int:
    return int(leaf.data_ptr()) if type(leaf) is torch.Tensor and leaf.layout is torch.strided else 0


def _form(kind: type, *details: Any) -> Form:
    name = name_of(kind)
    if len(details) == 3:
        dtype, shape, stride = details
        return Form(kind="tensor", type_name=name, dtype=values.dtype_name(dtype), shape=tuple(shape), stride=stride)
    if details:
        return Form(kind=kind.__name__, type_name=name, value=details[0])
    return Form(kind="none" if kind is type(None) else "other", type_name=name)
