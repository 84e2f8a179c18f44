"""The baselines' process: eager, ``torch.compile`` and max-autotune of the reference, compiled once and kept warm."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import values
from .answering import Handlers, Refused, attempt, serve_commands
from .batch_messages import Batch, Lay, Made, Warm
from .batches import Batches
from .messages import HOST, Done, Open, Opened, Release, Spawn
from .recorded_calls import Graphs, graphs_for
from .recording_messages import Record, Recorded
from .reference import prepare_process
from .reference_problem import ReferenceProblem, open_subject
from .restarts import Restarts
from .state import whole_of
from .state_messages import INPUT
from .stopwatch import as_it_is, stopwatch_for
from .tensor_placement import Place
from .timing_messages import IDLE, Build, Built, Time, Timed, Upload

MODES = {"compile": None, "max_autotune": "max-autotune"}
NO_GRAPHS = {"max-autotune": "max-autotune-no-cudagraphs"}
"""On an accelerator the harness records graphs itself, and none can be recorded while another one is replayed."""


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    there = prepare_process(request)
    # One process: helper processes of the compiler would disturb the timing and outlive us.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    baseline = _Baseline(there)
    handlers: Handlers = {
        Open: baseline.open,
        Upload: baseline.stock,
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
    def __init__(self, there: Place) -> None:
        self._subject: ReferenceProblem | None = None
        nothing = torch.zeros(1)
        self._calls: dict[str, Callable[..., Any]] = {IDLE: lambda *inputs: nothing}
        self._there = there
        self._stopwatch = stopwatch_for(there)
        self._restarts: Restarts | None = None
        self._batches = Batches()
        self._graphs: Graphs | None = None

    def open(self, command: Open, descriptors: list[int]) -> Opened:
        self._subject = open_subject(command)
        self._subject.bring()
        return Opened(shapes=self._subject.shapes)

    def stock(self, command: Upload, descriptors: list[int]) -> Done:
        source = values.MappedFile(descriptors[0], command.inputs.size)
        self._stopwatch.stock(values.unpack(command.inputs, source))
        if command.state:
            self._restart_from(self._stopwatch.copies[-1], command)
        return Done()

    def _restart_from(self, inputs: list[Any], command: Upload) -> None:
        assert self._subject is not None
        if self._restarts is None:
            names = {whole_of(entry.name) for entry in command.state if entry.kind != INPUT}
            subject = self._subject
            self._restarts = Restarts(command.state, subject.module, lambda: subject.restart(names))
            self._stopwatch.written = self._restarts.written
        self._restarts.stock(inputs)

    def build(self, command: Build, descriptors: list[int]) -> Built:
        assert self._subject is not None
        started = time.perf_counter()
        call: Callable[..., Any] = self._subject.call
        if command.name in MODES:
            mode = MODES[command.name]
            call = self._subject.compiled(mode if self._there.device.type == HOST else NO_GRAPHS.get(mode or "", mode))
        if self._restarts is not None:
            call = self._restarts.before(call)
        try:
            # Every copy, since sizes may depend on the data, and twice, since the first call may only record.
            for inputs in [*self._stopwatch.copies, *self._stopwatch.copies]:
                attempt(lambda inputs=inputs: call(*inputs))  # type: ignore[misc]
        except Refused as refused:
            return Built(ok=False, seconds=time.perf_counter() - started, detail=str(refused))
        self._calls[command.name] = call
        return Built(ok=True, seconds=time.perf_counter() - started)

    def time(self, command: Time, descriptors: list[int]) -> Timed | tuple[Timed, Sequence[int]]:
        if command.form:
            graphs = self._graphed()
            self._stopwatch.unveil()
            return attempt(lambda: graphs.time(command))
        call = self._calls[command.name]
        taken = as_it_is if self._restarts is None or command.name == IDLE else self._restarts.taken
        timed, _ = attempt(lambda: self._stopwatch.run(call, command, taken=taken))
        return timed

    def lay(self, command: Lay, descriptors: list[int]) -> Done:
        if self._there.device.type != HOST:
            return self._graphed().lay(command, descriptors[0], self._restarts)
        return self._batches.lay(command, descriptors[0], self._restarts)

    def _graphed(self) -> Graphs:
        if self._graphs is None:
            self._graphs = graphs_for(self._there.device)
        return self._graphs

    def record(self, command: Record, descriptors: list[int]) -> Recorded:
        graphs = self._graphed()
        self._stopwatch.unveil()
        graphs.take_uploaded(self._stopwatch.copies, self._restarts)
        return attempt(lambda: graphs.record(self._calls[command.name], command))

    def warm(self, command: Warm, descriptors: list[int]) -> Done:
        return self._batches.warm(self._calls[command.name], command)

    def make(self, command: Batch, descriptors: list[int]) -> Made:
        return self._batches.make(self._calls[command.name], command)

    def release(self, command: Release, descriptors: list[int]) -> Done:
        """Others may have the memory of the calls' outputs and workspaces; the copies of the inputs stay."""
        self._there.tidy()
        return Done()
