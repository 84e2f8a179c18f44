"""The baselines' process: eager, ``torch.compile`` and max-autotune of the reference, compiled once and kept warm."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch._dynamo.utils

from ...processes.messages import HOST, Done, Spawn
from ..calls.answering import Handlers, Refused, attempt, serve_commands
from ..calls.batches import Batches
from ..calls.recorded_calls import Graphs, graphs_for
from ..calls.restarts import Restarts
from ..calls.state import whole_of
from ..calls.stopwatch import as_it_is, stopwatch_for
from ..messages.batch import Batch, Lay, Made, Warm
from ..messages.commands import Open, Opened, Release
from ..messages.recording import Record, Recorded
from ..messages.state import INPUT
from ..messages.timing import IDLE, Build, Built, Time, Timed, Upload
from ..reference.problem import ReferenceProblem, open_reference
from ..tensors import values
from ..tensors.tensor_placement import TensorDevice
from .reference import prepare_process

MODES = {"compile": None, "max_autotune": "max-autotune"}
NO_GRAPHS = {"max-autotune": "max-autotune-no-cudagraphs"}
"""On an accelerator the harness records graphs itself, and none can be recorded while another one is replayed."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    tensor_device = prepare_process(request)
    # One process: helper processes of the compiler would disturb the timing and outlive us.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    baseline = _Baseline(channel, tensor_device)
    handlers: Handlers = {
        Open: baseline.open,
        Upload: baseline.upload,
        Build: baseline.build,
        Time: baseline.time,
        Release: baseline.release,
        Lay: baseline.lay,
        Warm: baseline.warm,
        Batch: baseline.make,
        Record: baseline.record,
    }
    serve_commands(channel, handlers)


class _Baseline:
    def __init__(self, channel: socket.socket, tensor_device: TensorDevice) -> None:
        self._reference: ReferenceProblem | None = None
        nothing = torch.zeros(1)
        self._calls: dict[str, Callable[..., Any]] = {IDLE: lambda *inputs: nothing}
        self._begun: dict[str, tuple[int, int, float]] = {}
        """Of what was compiled apart: graphs before that, compiled and kept, and the seconds it took."""
        self._tensor_device = tensor_device
        self._stopwatch = stopwatch_for(tensor_device)
        self._restarts: Restarts | None = None
        self._batches = Batches(channel)
        self._graphs: Graphs | None = None

    def open(self, command: Open, descriptors: list[int]) -> Opened:
        self._reference = open_reference(command)
        self._reference.move_to_device()
        return Opened(shapes=self._reference.shapes)

    def upload(self, command: Upload, descriptors: list[int]) -> Done:
        source = values.MappedFile(descriptors[0], command.inputs.size)
        self._stopwatch.add_inputs(values.unpack(command.inputs, source))
        if command.state:
            self._restart_from(self._stopwatch.copies[-1], command)
        return Done()

    def _restart_from(self, inputs: list[Any], command: Upload) -> None:
        assert self._reference is not None
        if self._restarts is None:
            names = {whole_of(entry.name) for entry in command.state if entry.kind != INPUT}
            reference = self._reference
            self._restarts = Restarts(command.state, reference.module, lambda: reference.restart(names))
            self._stopwatch.written = self._restarts.written
        self._restarts.save_originals(inputs)

    def build(self, command: Build, descriptors: list[int]) -> Built:
        assert self._reference is not None
        started = time.perf_counter()
        compiled, kept, before = self._begun.pop(command.name, (*_graphs(), 0.0))
        call: Callable[..., Any] = self._reference.call
        if command.name in MODES:
            mode = MODES[command.name]
            mode = mode if self._tensor_device.device.type == HOST else NO_GRAPHS.get(mode or "", mode)
            if not command.runs:
                self._compile(mode)
                self._begun[command.name] = compiled, kept, time.perf_counter() - started
                return Built(ok=True, seconds=time.perf_counter() - started)
            call = self._reference.compiled(mode)
        if self._restarts is not None:
            call = self._restarts.before(call)
        try:
            # Every copy, since sizes may depend on the data, and twice, since the first call may only record.
            for inputs in [*self._stopwatch.copies, *self._stopwatch.copies]:
                attempt(lambda inputs=inputs: call(*inputs))  # type: ignore[misc]
        except Refused as refused:
            return Built(ok=False, seconds=time.perf_counter() - started, detail=str(refused))
        self._calls[command.name] = call
        now_compiled, now_kept = _graphs()
        seconds = before + time.perf_counter() - started
        return Built(ok=True, seconds=seconds, compiled=now_compiled - compiled, kept=now_kept - kept)

    def _compile(self, mode: str | None) -> None:
        """Compile for the caches as far as nothing runs; what cannot be done so says why when it is built."""
        assert self._reference is not None
        reference = self._reference
        with contextlib.suppress(Refused):
            attempt(lambda: until_it_runs(reference.compiled(mode, whole=True), self._stopwatch.copies[0]))
        # A call that does not end leaves what its end would have put back.
        reference.restart()

    def time(self, command: Time, descriptors: list[int]) -> Timed | tuple[Timed, Sequence[int]]:
        if command.form:
            graphs = self._graphed()
            self._stopwatch.restore_all()
            return attempt(lambda: graphs.time(command))
        call = self._calls[command.name]
        taken = as_it_is if self._restarts is None or command.name == IDLE else self._restarts.taken
        timed, _ = attempt(lambda: self._stopwatch.run(call, command, taken=taken))
        return timed

    def lay(self, command: Lay, descriptors: list[int]) -> Done:
        if self._tensor_device.device.type != HOST:
            return self._graphed().lay(command, descriptors[0], self._restarts)
        return self._batches.lay(command, descriptors[0], self._restarts)

    def _graphed(self) -> Graphs:
        if self._graphs is None:
            self._graphs = graphs_for(self._tensor_device.device)
        return self._graphs

    def record(self, command: Record, descriptors: list[int]) -> Recorded:
        graphs = self._graphed()
        self._stopwatch.restore_all()
        graphs.take_uploaded(self._stopwatch.copies, self._restarts)
        return attempt(lambda: graphs.record(self._calls[command.name], command))

    def warm(self, command: Warm, descriptors: list[int]) -> Done:
        return self._batches.warm(self._calls[command.name], command)

    def make(self, command: Batch, descriptors: list[int]) -> Made:
        return self._batches.make(self._calls[command.name], command)

    def release(self, command: Release, descriptors: list[int]) -> Done:
        """Others may have the memory of the calls' outputs and workspaces; the copies of the inputs stay."""
        self._tensor_device.tidy()
        return Done()


class _Runs(BaseException):
    """Something is about to run on the device: a compiled graph, or what decides how one is compiled."""


def until_it_runs(call: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Have ``call``, which is compiled as a whole, compiled by Inductor up to where something would run."""

    # Imported where it is needed: that takes a second, and a processor has no use for it.
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.output_code import CompiledFxGraph

    def stop(*arguments: Any) -> Any:
        raise _Runs

    with contextlib.ExitStack() as patched, contextlib.suppress(_Runs):
        for owner, name in ((CompiledFxGraph, "__call__"), (pad_mm, "get_do_bench")):
            patched.enter_context(mock.patch.object(owner, name, stop))
        call(*inputs)


def _graphs() -> tuple[int, int]:
    """How many graphs Inductor has compiled in this process, and how many it took from its cache on disk."""
    counts = torch._dynamo.utils.counters["inductor"]
    return counts["fxgraph_cache_miss"] + counts["fxgraph_cache_bypass"], counts["fxgraph_cache_hit"]
