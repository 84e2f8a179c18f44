"""Calls of an accelerator as its users record them: one on each input set, in one graph that is replayed.

No code of the candidate runs on the processor while a graph is replayed, so what is timed is the device's work. The
input sets are so many that the last-level cache holds none when its turn comes; weights are flushed from it.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...processes.messages import Done
from ..messages.batch import Lay
from ..messages.recording import APART, COLD, WARM, Record, Recorded
from ..messages.timing import IDLE, Time, Timed
from ..tensors import values
from ..tensors.poisoning import Poisoning, generator, only_read
from .answering import Refused
from .cuda_graphs import CannotRecord, CudaRecorder, Recorder, Recording
from .restarts import Restarts
from .stopwatch import FLUSH_BYTES

Call = Callable[..., Any]

WARMING_CALLS = 3
"""Made before recording: what compiles, tunes or allocates at its first call does so there."""

_POISON = 0x7F
_NOT_IN_IT = "a replay does not compute what a call does: part of it is launched on another stream than the current one"
_LOOSELY = 1e-2
"""Share of the largest number by which a replay may differ from a call: other sums of atomics do."""
_clock = time.perf_counter_ns
_fill, _set, _storage = torch.Tensor.fill_, torch.Tensor.set_, torch.Tensor.untyped_storage
_address, _nbytes = torch.UntypedStorage.data_ptr, torch.UntypedStorage.nbytes
_detach = torch._C.TensorBase.detach
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_empty, _uint8 = torch.empty, torch.uint8
_clone, _nan_to_num, _as_real, _float64 = torch.clone, torch.nan_to_num, torch.view_as_real, torch.float64


@dataclass(frozen=True)
class _Form:
    """What a graph holds for each input set."""

    name: str
    poisoned: bool = False
    called: bool = True
    first: bool = False
    """Whether every call is on the first set."""

    @property
    def bare(self) -> "_Form":
        """The same without the calls."""
        return _Form(f"bare {self.name}", self.poisoned, called=False, first=self.first)


_FORMS = {form.name: form for form in (_Form(COLD), _Form(WARM, first=True), _Form(APART, poisoned=True))}


class Graphs:
    """The input sets of a process, and what it recorded on them."""

    def __init__(self, recorder: Recorder, device: torch.device) -> None:
        self._recorder = recorder
        self._device = device
        self._base: list[list[Any]] = []
        """As they arrive."""
        self._sets: list[list[Any]] = []
        """The same where calls do not write them; else copies that every call restores first."""
        self._coming: tuple[Lay, values.MappedFile] | None = None
        self._restarts: Restarts | None = None
        self._aliased = self._flush = False
        self._flushed: torch.Tensor | None = None
        self._calls: dict[str, Call] = {}
        self._recordings: dict[tuple[str, _Form], Recording] = {}
        self._poisoners: dict[tuple[str, _Form], Recording] = {}
        """What overwrites the outputs of a recording: of a network's buffers there are thousands."""
        self._poisonings: list[Poisoning] = []
        self._outputs: list[list[Any]] = []
        self._places: dict[tuple[str, _Form], set[tuple[int, int]]] = {}
        """Addresses and sizes of the memory that the outputs of a recording lie in."""
        self._outputs_places: set[tuple[int, int]] = set()

    def lay(self, command: Lay, file: int, restarts: Restarts | None) -> Done:
        """Take input sets: the first time in tensors of their own, later in the same ones."""
        self._coming = command, values.MappedFile(file, command.stride * command.sets)
        if not self._base:
            self._restarts, self._aliased = restarts, command.aliased
        if not command.later:
            self._arrive()
            self._restore()
        return Done()

    def take_uploaded(self, copies: list[list[Any]], restarts: Restarts | None) -> None:
        """Take the uploaded copies as the input sets, where no others were laid."""
        if not self._base:
            self._sets, self._restarts, self._aliased = copies, restarts, restarts is not None

    def record(self, call: Call, command: Record) -> Recorded:
        """Record calls in every form: later it would be in the time in which nobody else may use the device.

        ``call`` begins from the start each time, where calls change something.
        """
        self._calls[command.name] = call
        self._flush = command.flush
        try:
            for inputs in self._sets[1:WARMING_CALLS]:
                call(*inputs)
            expected = [
                _clone(output) for output in values.tensors_of([self._left(call(*self._sets[0]), self._sets[0])])
            ]
            self._recording(command.name, _FORMS[COLD])
            if command.name != IDLE:
                # A call of nothing launches nothing: no replay of it writes what it returned.
                self._check_replay(command.name, expected)
                for form in _FORMS.values():
                    self._recording(command.name, form)
                    self._bare(form)
                # To record is to replay once.
                self._restore()
        except CannotRecord as error:
            return Recorded(reason=str(error))
        return Recorded()

    def _check_replay(self, name: str, expected: list[torch.Tensor]) -> None:
        """A graph must hold all of a call. Kernels on another stream than the current one (the legacy default stream of
        ``kernel<<<blocks, threads>>>``) run while they are recorded, and are not in it."""
        form = _FORMS[COLD]
        recording = self._recording(name, form)
        self._recorder.elapsed_ns(recording, 1, self._poisoners.get((name, form)))
        if not all(map(_is_alike, expected, values.tensors_of([recording.outputs[0]]))):
            raise CannotRecord(_NOT_IN_IT)

    def time(self, command: Time) -> Timed:
        """Replay about so many calls, one pass over the input sets at least. ``ns`` are those of ``calls`` of them."""
        began = _clock()
        form = _FORMS[command.form]
        gc.disable()
        try:
            times = max(1, round(command.calls / len(self._sets)))
            ns = self._replayed(command.name, form, times)
        except CannotRecord as error:
            raise Refused(f"it could be recorded, and cannot any more: {error}", kind="harness") from None
        finally:
            gc.enable()
        share = command.calls / (times * len(self._sets))
        return Timed(ns=max(1, round(ns * share)), whole_ns=_clock() - began, kept=-1)

    def outputs(self, call: int) -> list[Any]:
        """What a call of the last replay left."""
        if not set(map(_place, values.tensors_of(self._outputs[call]))) <= self._outputs_places:
            raise Refused("what a recorded call left lies elsewhere than it did when the call was recorded")
        return list(self._outputs[call])

    def _replayed(self, name: str, form: _Form, times: int) -> int:
        bare = self._bare(form)
        self._arrive()
        recording = self._recording(name, form)
        if not form.first:
            self._outputs, self._outputs_places = recording.outputs, self._places[name, form]
        if form.poisoned:
            for poisoning in self._poisonings:
                poisoning.poison()
        # Who leaves an output as it was leaves what is written here. In the form that caps the speedup it is written
        # before each pass: from the second on, the output of a call would hold the answer already.
        poisoner = self._poisoners.get((name, form))
        if poisoner is not None and not form.poisoned:
            poisoner.replay()
            poisoner = None
        ns = self._recorder.elapsed_ns(recording, times, poisoner)
        if bare is not None:
            ns -= self._recorder.elapsed_ns(bare, times)
        if form.poisoned:
            self._restore()
        return ns

    def _restore(self) -> None:
        for poisoning in self._poisonings:
            poisoning.restore()

    def _bare(self, form: _Form) -> Recording | None:
        """What ``form`` holds beside its calls, which is not theirs; None where that is nothing."""
        return self._recording("", form.bare) if form.poisoned or (self._flush and not form.first) else None

    def _recording(self, name: str, form: _Form) -> Recording:
        if (name, form) not in self._recordings:
            if form.poisoned and not self._poisonings:
                chance = generator(self._device)
                written = self._restarts.written if self._restarts is not None else ()
                self._poisonings = [Poisoning(only_read(inputs, written), chance) for inputs in self._sets]
            call = self._calls.get(name)
            recording = self._recorder.record(lambda: self._body(call, form))
            # Who has the tensors that it returned may give them other memory, which no replay writes.
            recording.outputs = [list(map(_of_our_own, values.leaves(output))) for output in recording.outputs]
            self._places[name, form] = set(map(_place, values.tensors_of(recording.outputs)))
            if recording.outputs:
                self._poisoners[name, form] = self._recorder.record(lambda: _poison(recording.outputs))
            self._recordings[name, form] = recording
        return self._recordings[name, form]

    def _body(self, call: Call | None, form: _Form) -> list[Any]:
        outputs: list[Any] = []
        for index, inputs in enumerate(self._sets):
            if self._flush and not form.first:
                _fill(self._flush_memory(), 1)
            if form.poisoned:
                self._poisonings[index].restore()
            if form.called and call is not None:
                used = self._sets[0] if form.first else inputs
                output = self._left(call(*used), used)
                if not form.first:
                    outputs.append(output)
            if form.poisoned:
                self._poisonings[index].poison()
        return outputs

    def _left(self, output: Any, inputs: list[Any]) -> Any:
        return output if self._restarts is None else self._restarts.left(output, inputs, aliased=self._aliased)

    def _flush_memory(self) -> torch.Tensor:
        if self._flushed is None:
            self._flushed = _empty(FLUSH_BYTES // 4, dtype=torch.int32, device=self._device)
        return self._flushed

    def _arrive(self) -> None:
        if self._coming is None:
            return
        (command, source), self._coming = self._coming, None
        if self._base:
            for number, inputs in enumerate(self._base):
                values.refill(inputs, command.inputs[0], source, begin=number * command.stride)
                # At once: a kernel on a stream of its own would begin on them before they are timed.
                if self._poisonings:
                    self._poisonings[number].refresh()
                    self._poisonings[number].poison()
            return
        for number in range(command.sets):
            inputs = values.unpack(command.inputs[0], source, begin=number * command.stride)
            self._base.append(inputs)
            self._sets.append(inputs if self._restarts is None else self._restarts.begin_from(inputs))


def graphs_for(device: torch.device) -> Graphs:
    """Those of calls on ``device``."""
    return Graphs(CudaRecorder(device), device)


def _of_our_own(output: Any) -> Any:
    """The same memory in a tensor that nobody else has; what has methods of its own stays."""
    return _detach(output) if type(output) in (_Tensor, _Parameter) else output


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    storage = _storage(tensor)
    return _address(storage), _nbytes(storage)


def _is_alike(expected: torch.Tensor, replayed: torch.Tensor) -> bool:
    if expected.shape != replayed.shape or expected.dtype != replayed.dtype:
        return False
    if expected.is_complex():
        expected, replayed = _as_real(expected), _as_real(replayed)
    if not expected.is_floating_point():
        expected, replayed = expected.to(_float64), replayed.to(_float64)
    expected, replayed = _nan_to_num(expected), _nan_to_num(replayed)
    return not expected.numel() or bool(((expected - replayed).abs() <= _LOOSELY * expected.abs().max()).all())


def _poison(outputs: list[Any]) -> list[Any]:
    """Overwrite them; nothing is returned that a replay of it would write."""
    # Of small ones several lie in one memory.
    memories = {_place(tensor): tensor for tensor in values.tensors_of(outputs)}
    for tensor in memories.values():
        _fill(_set(_empty(0, dtype=_uint8, device=tensor.device), _storage(tensor)), _POISON)
    return []
