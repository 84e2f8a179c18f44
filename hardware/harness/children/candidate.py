"""The candidate's process: imports the candidate, receives inputs, returns outputs, runs timed calls.

Whatever it uses after the import was bound before, so that a candidate cannot get between by patching a module.
"""

import contextlib
import ctypes
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from ....schemas import ProblemFormat
from ...dropin.own_backward import differentiable
from ...languages._triton_runtime import unpack, use
from ...languages.program_runs import played_back
from ...processes.arguments import specs_of
from ...processes.messages import HOST, Done, Spawn
from ..calls.adoption import Adoption
from ..calls.answering import Handlers, Refused, attempt, serve_commands
from ..calls.backward import CHECKED, TIMED, differentiated
from ..calls.batches import Batches
from ..calls.candidate_state import CandidateState, build_model, check_roles
from ..calls.integrity import Snapshot
from ..calls.recorded_calls import Graphs, graphs_for
from ..calls.restarts import Restarts
from ..calls.state import after_call
from ..calls.stopwatch import as_it_is, stopwatch_for
from ..calls.user_module import import_source
from ..messages.batch import Batch, Lay, Made, Warm
from ..messages.commands import Differentiate, Dump, Dumped, Load, Loaded, Ran, Release, Run, Values
from ..messages.recording import Record, Recorded, TakeCall
from ..messages.state import INPUT, CheckState, StateChecked, StateEntry
from ..messages.timing import Time, Timed, Upload
from ..reference.gradients import followed
from ..tensors import tensor_placement, values
from ..tensors.fingerprint import Fingerprint
from ..tensors.output_descriptions import Probe, describe, probes
from ..tensors.output_transfer import copy_out
from ..tensors.tensor_placement import TensorDevice

_M_PERTURB = -6
_PERTURB = 0x80
"""glibc fills fresh memory with the complement, 0x7F: huge as a float, large as an integer."""

_libc = ctypes.CDLL(None)
_differences = Snapshot.differences
_differences_code = Snapshot.differences.__code__


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(request.threads)
    torch.set_grad_enabled(False)
    candidate = _Candidate(channel, tensor_placement.set_device(request.device), Path(request.scratch))
    handlers: Handlers = {
        Load: candidate.load,
        Run: candidate.run,
        Differentiate: candidate.differentiate,
        Dump: candidate.dump,
        CheckState: candidate.check_state,
        Release: candidate.release,
        Upload: candidate.upload,
        Time: candidate.time,
        Lay: candidate.lay,
        Warm: candidate.warm,
        Batch: candidate.make,
        Record: candidate.record,
        TakeCall: candidate.take_call,
    }
    serve_commands(channel, handlers)


@dataclass
class _Slot:
    inputs: list[Any]
    source: values.MappedFile
    description: Values
    outputs: list[Any] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    marks: list[Fingerprint | None] = field(default_factory=list)
    """Of the input tensors as they were handed in, where a change is seen by that."""


class _Candidate:
    def __init__(self, channel: socket.socket, tensor_device: TensorDevice, scratch: Path) -> None:
        self._tensor_device = tensor_device
        self._scratch = scratch
        self._call: Callable[..., Any] | None = None
        self._checked: Callable[..., Any] | None = None
        """The same, where it is not timed."""
        self._model: torch.nn.Module | None = None
        self._backward: Callable[..., Any] | None = None
        self._slots: dict[int, _Slot] = {}
        self._stopwatch = stopwatch_for(tensor_device)
        self._coming: list[tuple[Upload, values.MappedFile]] = []
        self._snapshot: Snapshot | None = None
        self._state: CandidateState | None = None
        self._adoption = Adoption()
        self._restarts: Restarts | None = None
        self._batches = Batches(channel)
        self._graphs: Graphs | None = None

    def load(self, command: Load, descriptors: list[int]) -> Loaded:
        os.environ["KERNELSWARM_ARTIFACTS"] = command.artifacts
        self._unpack(command)
        self._snapshot = Snapshot()
        with played_back(self._scratch, [Path(command.artifacts) / name for name in command.built]):
            self._import(command, descriptors)
        how = "" if self._model is None else self._adoption.how
        return Loaded(weights=how, renamed=dict(self._adoption.renamed))

    def _import(self, command: Load, descriptors: list[int]) -> None:
        module = import_source("candidate", command.source, kind="load")
        if command.format is ProblemFormat.function:
            self._call = getattr(module, "kernel", None)
            if not callable(self._call):
                raise Refused("the file defines no function `kernel`", kind="load")
        else:
            assert command.setup is not None
            source = _mapped(command.setup, descriptors)
            model, self._adoption = build_model(module, values.unpack(command.setup, source))
            self._call = self._model = model
            check_roles(model, command.roles, self._adoption)
            self._state = CandidateState(model, command.setup, source, self._adoption)
        own = getattr(module, "backward", None)
        self._backward = own if callable(own) else None
        self._checked = self._call
        if command.backward:
            self._checked = differentiated(self._call, self._backward, among=CHECKED)
            self._call = differentiated(self._call, self._backward, among=TIMED)

    def _unpack(self, command: Load) -> None:
        """Give Triton a cache of this process's own, with what was compiled ahead: such launches only load.

        Kernels without a launch table are compiled at their first call, and need a folder that can be written.
        """
        cache = self._scratch / "triton"
        use(cache)
        for name in command.ahead:
            unpack(Path(command.artifacts) / name, cache)

    def run(self, command: Run, descriptors: list[int]) -> Ran:
        assert self._checked is not None
        slot = self._slots[command.slot] if command.repeat else self._filled(command, descriptors)
        entries = self._renamed(command.state)
        written = [entry.tensor for entry in entries if entry.kind == INPUT]
        if command.repeat and written:
            slot = _slot_for_inputs(command.inputs, slot.source, slot)
        if self._state is not None:
            self._state.begin(entries, continued=command.continued)
        if command.poison == "malloc" and self._slots:
            self._tensor_device.poison_free_memory(next(reversed(self._slots.values())).outputs)
        with _poisoned(command.poison):
            result = attempt(lambda: self._checked(*slot.inputs))  # type: ignore[misc]
        if values.are_too_many(result):
            raise Refused(f"it returns more than {values.MOST_OUTPUTS} outputs", kind="form")
        # Read at once and backwards: a thread that still computes is caught with its work undone.
        slot.outputs = values.leaves(result)
        slot.probes = probes(slot.outputs, self._tensor_device)
        state = after_call(entries, slot.inputs, self._model)
        slot.outputs += state
        slot.probes += probes(state, self._tensor_device)
        self._slots[command.slot] = slot
        return Ran(
            outputs=tuple(describe(output, self._tensor_device) for output in slot.outputs),
            mutated=_first_changed(slot, self._tensor_device, written),
            touched=self._touched(),
        )

    def _renamed(self, entries: tuple[StateEntry, ...]) -> tuple[StateEntry, ...]:
        """``entries`` under the names that they have here."""
        if not self._adoption.renamed:
            return entries
        return tuple(msgspec.structs.replace(entry, name=self._adoption.name(entry.name)) for entry in entries)

    def check_state(self, command: CheckState, descriptors: list[int]) -> StateChecked:
        return StateChecked() if self._state is None else self._state.differences()

    def _touched(self) -> tuple[str, ...]:
        # The snapshot watches this module, so this module watches the snapshot.
        if Snapshot.differences is not _differences or _differences.__code__ is not _differences_code:
            return ("the harness's own checks",)
        return ("the harness's own checks",) if self._snapshot is None else self._snapshot.differences()

    def _filled(self, command: Run, descriptors: list[int]) -> _Slot:
        inputs, source = command.inputs, _mapped(command.inputs, descriptors)
        if command.dense:
            inputs, source = _dense(inputs, source)
        slot = _slot_for_inputs(inputs, source, self._slots.get(command.reuse))
        slot.marks = [self._tensor_device.fingerprint(tensor) for tensor in values.tensors_of(slot.inputs)]
        return slot

    def differentiate(self, command: Differentiate, descriptors: list[int]) -> Ran:
        """Call it with gradients on; the slot's outputs are the gradients."""
        assert self._call is not None
        slot = _slot_for_inputs(command.inputs, _mapped(command.inputs, descriptors), None)
        differentiate = self._followed(command.followed)
        if self._state is not None:
            self._state.restore()
        slot.outputs = attempt(lambda: differentiate(*slot.inputs))
        slot.probes = probes(slot.outputs, self._tensor_device)
        self._slots[command.slot] = slot
        outputs = tuple(describe(output, self._tensor_device) for output in slot.outputs)
        return Ran(outputs=outputs, touched=self._touched())

    def _followed(self, names: Sequence[str]) -> Callable[..., Any]:
        """What takes its gradients: those that it has itself, or those of the ``backward`` beside it.

        The latter knows of inputs only.
        """
        call = self._call
        assert call is not None
        if not isinstance(call, torch.nn.Module):
            return followed(differentiable(call, self._backward, call) if self._backward else call, {})
        weights = {**dict(call.named_parameters()), **dict(call.named_buffers())}
        own = self._backward if not names else None
        if lacking := [name for name in names if self._adoption.name(name) not in weights]:
            raise Refused(f"ModelNew has nothing that is {lacking[0]} of Model: its gradient cannot be asked for")
        chosen = {name: weights[self._adoption.name(name)] for name in names}
        return followed(differentiable(call, own, call) if own else call, chosen)

    def dump(self, command: Dump, descriptors: list[int]) -> tuple[Dumped, Sequence[int]]:
        slot = self._slots[command.slot]
        pairs = zip(probes(slot.outputs, self._tensor_device), slot.probes, strict=True)
        changed = next((i for i, (now, then) in enumerate(pairs) if now != then), -1)
        return Dumped(changed=changed), (copy_out(slot.outputs, self._tensor_device),)

    def release(self, command: Release, descriptors: list[int]) -> Done:
        self._slots.clear()
        return Done()

    def upload(self, command: Upload, descriptors: list[int]) -> Done:
        if command.state and self._restarts is None:
            self._restarts = self._restarting(command.state)
            self._stopwatch.written = self._restarts.written
        self._coming.append((command, _mapped(command.inputs, descriptors)))
        if not command.later:
            self._arrive()
        return Done()

    def _restarting(self, state: tuple[StateEntry, ...]) -> Restarts:
        state = self._renamed(state)
        if self._state is not None:
            self._state.begin(state, continued=False)
        return Restarts(state, self._model, _nothing if self._state is None else self._state.restore)

    def lay(self, command: Lay, descriptors: list[int]) -> Done:
        if self._tensor_device.device.type != HOST:
            return self._graphed(command.state).lay(command, descriptors[0], self._restarts)
        self._restarts = self._restarting(command.state) if command.state else None
        return self._batches.lay(command, descriptors[0], self._restarts)

    def _graphed(self, state: tuple[StateEntry, ...]) -> Graphs:
        if self._graphs is None:
            self._graphs = graphs_for(self._tensor_device.device)
            if state and self._restarts is None:
                self._restarts = self._restarting(state)
        return self._graphs

    def record(self, command: Record, descriptors: list[int]) -> Recorded:
        graphs = self._graphed(())
        self._stopwatch.restore_all()
        graphs.take_uploaded(self._stopwatch.copies, self._restarts)
        return attempt(lambda: graphs.record(self._restarted(), msgspec.structs.replace(command, name="")))

    def take_call(self, command: TakeCall, descriptors: list[int]) -> Done:
        assert self._graphs is not None
        outputs = self._graphs.outputs(command.call)
        self._slots[command.slot] = _Slot([], *_NOTHING, outputs, probes(outputs, self._tensor_device))
        return Done()

    def warm(self, command: Warm, descriptors: list[int]) -> Done:
        return self._batches.warm(self._restarted(), command)

    def make(self, command: Batch, descriptors: list[int]) -> Made:
        return self._batches.make(self._restarted(), command)

    def _restarted(self) -> Callable[..., Any]:
        assert self._call is not None
        return self._call if self._restarts is None else self._restarts.before(self._call)

    def _arrive(self) -> None:
        while self._coming:
            command, source = self._coming.pop(0)
            old = self._slots.get(_slot_of_copy(command.reuse)) if command.reuse >= 0 else None
            slot = _slot_for_inputs(command.inputs, source, old)
            copies = self._stopwatch.copies
            index = command.reuse if old is not None else len(copies)
            copies[index : index + 1] = [slot.inputs]
            self._slots[_slot_of_copy(index)] = slot
            if self._restarts is not None:
                self._restarts.save_originals(slot.inputs)

    def time(self, command: Time, descriptors: list[int]) -> Timed:
        assert self._call is not None
        if command.form:
            graphs = self._graphed(())
            self._stopwatch.restore_all()
            return attempt(lambda: graphs.time(msgspec.structs.replace(command, name="")))
        call, taken = self._call, as_it_is
        if self._restarts is not None:
            call, taken = self._restarts.before(call), self._restarts.taken
        timed, output = attempt(lambda: self._stopwatch.run(call, command, arrive=self._arrive, taken=taken))
        if command.slot >= 0:
            held = self._slots[_slot_of_copy(timed.kept)]
            outputs = values.leaves(output)
            self._slots[command.slot] = _Slot(
                held.inputs,
                held.source,
                held.description,
                outputs,
                probes(outputs, self._tensor_device),
            )
        return timed


_NOTHING = (values.MappedFile(-1, 0), Values(items=(), size=0))
"""The inputs of a call that was replayed are the recording's."""


def _nothing() -> None:
    """A function keeps nothing."""


def _slot_of_copy(index: int) -> int:
    """Where the inputs of a copy that timing rotates through are kept."""
    return -2 - index


def _slot_for_inputs(inputs: Values, source: values.MappedFile, old: _Slot | None) -> _Slot:
    """The inputs in the tensors of ``old`` if they fit there, else in fresh ones."""
    if old is None or not _same_layout(old.description, inputs):
        return _Slot(values.unpack(inputs, source), source, inputs)
    return _Slot(values.refill(old.inputs, inputs, source), source, inputs)


def _dense(inputs: Values, source: values.MappedFile) -> tuple[Values, values.MappedFile]:
    """The same numbers in contiguous tensors."""
    dense, file = values.pack(values.mapped(values.viewed(inputs, source), torch.Tensor.contiguous))
    try:
        return dense, _mapped(dense, [file])
    finally:
        os.close(file)


def _mapped(described: Values, descriptors: list[int]) -> values.MappedFile:
    return values.MappedFile(descriptors[0], described.size)


@contextlib.contextmanager
def _poisoned(kind: str) -> Iterator[None]:
    """While open, what torch or malloc hand out fresh is filled with a pattern instead of what lay there."""
    if not kind:
        yield
        return
    perturb, pattern = getattr(_libc, "mallopt", None), getattr(_libc, "ks_keep_pattern", None)
    torch.use_deterministic_algorithms(kind == "torch", warn_only=True)
    if perturb is not None:
        perturb(_M_PERTURB, _PERTURB)
    if pattern is not None:
        pattern(_PERTURB ^ 0xFF)
    try:
        yield
    finally:
        if perturb is not None:
            perturb(_M_PERTURB, 0)
        if pattern is not None:
            pattern(0)
        torch.use_deterministic_algorithms(False)


def _first_changed(slot: _Slot, tensor_device: TensorDevice, written: Sequence[int]) -> int:
    """Index of the first tensor among the inputs whose bytes differ from what was handed in; -1: none.

    Those that are to be ``written`` aside.
    """
    specs = specs_of(slot.description.items)
    for index, (tensor, spec) in enumerate(zip(values.tensors_of(slot.inputs), specs, strict=True)):
        if index in written:
            continue
        mark = slot.marks[index] if slot.marks else None
        if mark is None:
            same = tensor_device.holds(tensor, slot.source.address + spec.position, spec.size)
        else:
            same = tensor_device.fingerprint(tensor) == mark
        if not same:
            return index
    return -1


def _same_layout(old: Values, new: Values) -> bool:
    return specs_of(old.items) == specs_of(new.items)
