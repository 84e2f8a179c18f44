"""Calls a candidate on the GPU under a profiler. A program of its own, because Nsight Compute starts what it profiles.

Started by :mod:`...profilers.standby`, it imports torch first, which takes seconds, then connects to its supervisor's
socket and waits for an :class:`.Inspect`, before which it may be asked to warm up. It shuts itself off before it
imports the candidate, and after CUDA and the profiler are up: those need files and sockets. Everything it answers may
be the candidate's word.
"""

import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from ....schemas import ProblemFormat
from ...processes import linux, sandbox, wire
from ...processes.messages import HOST, Failure, Spawn
from ...processes.namespaces import leave_network
from ...profilers.messages import Inspect, Loaded, Measure, Measured, Question, Warm, WarmUp
from ..messages.commands import Values

WARM = 3
HOST_MEMORY = 16 << 30
"""Address space, bytes, that a candidate may add on a processor; a device's driver reserves without end."""
CALLS = 5
"""Calls that a trace covers; Nsight Compute and Proton see one."""
_UNLIKE = 977 << 10
"""Elements that make the flush a launch of a size that no candidate has: that is how a trace tells it."""
_GRACE_S = 10
"""Our own alarm goes off so much later than the supervisor's."""


def main(address: str, mode: str, doors: str, device: str, target: str, cache: str) -> None:
    """Be ready, then profile one candidate in ``mode``: ``trace``, ``counters`` or ``scopes``.

    ``doors`` are ``closed`` for a candidate without network and with files that it can only read, beside the limits and
    the system call filter that always hold, or ``open``. It computes on ``device``, as torch names it: on ``cpu`` a
    trace shows operators, and there is no other mode. With ``target`` (``sm_90``) Triton is made ready too; its driver
    module is kept in ``cache``.
    """
    # Before torch: a process with threads may not leave its user namespace. Nsight Compute needs the network still.
    left = leave_network() if doors == "closed" and mode != "counters" else ()
    import torch

    from ..calls.answering import Refused, attempt

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    if device != HOST and not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device")
    if target:
        _prepare_triton(Path(cache), target)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    profiling_pass = _ProfilingPass(mode, doors, device, left)
    question: Question
    request: Inspect
    try:
        question, files = wire.receive(connection, Question)
        if isinstance(question, WarmUp):
            with _limited(question.seconds):
                attempt(profiling_pass.warm_up)
            wire.send(connection, Warm())
            request, files = wire.receive(connection, Inspect)
        else:
            request = question
        with _limited(request.seconds):
            loaded = attempt(lambda: profiling_pass.load(request, files))
        wire.send(connection, loaded)
        wire.receive(connection, Measure)
        with _limited(request.seconds):
            measured = attempt(profiling_pass.measure)
        wire.send(connection, Measured(output=measured))
    except Refused as refused:
        wire.send(connection, Failure(kind=refused.kind, message=str(refused), log=refused.log))
    except (EOFError, ConnectionError):
        # The supervisor has let go: nobody is left to answer to.
        return


def _prepare_triton(cache: Path, target: str) -> None:
    from ...languages._triton_runtime import prepare

    # What is missing shows when a candidate needs it; one in CUDA C++ does not.
    with suppress(ImportError, RuntimeError, AssertionError, OSError):
        prepare(cache, target)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Ends this process if what is inside takes too long and nobody has ended it by then."""
    signal.alarm(int(seconds) + _GRACE_S)
    try:
        yield
    finally:
        signal.alarm(0)


class _ProfilingPass:
    """One candidate under one profiler."""

    def __init__(self, mode: str, doors: str, device: str, left: tuple[str, ...]) -> None:
        self._mode = mode
        self._doors = doors
        self._device = device
        self._left = left
        """Layers that hold from the start."""
        self._call: Callable[..., object] = lambda: None
        self._copies: list[list[Any]] = []
        self._flush: Callable[[], object] | None = None

    def warm_up(self) -> None:
        """The device's context, and the profiler's first use, which takes longer than any other. Once."""
        import torch

        from ..calls.stopwatch import FLUSH_BYTES
        from ..tensors import tensor_placement

        if self._flush is not None:
            return
        tensor_device = tensor_placement.set_device(self._device)
        flushed = torch.empty(FLUSH_BYTES // 4 + _UNLIKE, dtype=torch.int32, device=tensor_device.device)
        fill = torch.Tensor.fill_
        self._flush = flush = lambda: fill(flushed, 1)
        if self._mode == "trace":
            self._traced(flush)
        elif self._mode == "counters":
            self._counted(flush)

    def load(self, request: Inspect, files: list[int]) -> Loaded:
        """CUDA, the profiler and the inputs first, then the doors shut, then the candidate; and warm calls of it."""
        from ...processes import objects
        from ..tensors import values

        self.warm_up()
        mapped = [
            values.unpack(described, _mapped(described, files[index : index + 1]))
            for index, described in enumerate(request.inputs)
        ]
        setup = None if request.setup is None else values.unpack(request.setup, _mapped(request.setup, files[-1:]))
        wire.close_all(files)
        isolation = self._shut(request)
        self._call = _imported(request, setup)
        self._copies = [objects.of_own_classes(inputs) for inputs in mapped]
        for inputs in self._turns(WARM):
            self._call(*inputs)
        self._synchronize()
        return Loaded(isolation=isolation)

    def _shut(self, request: Inspect) -> tuple[str, ...]:
        """Limits and filter for this thread and those it starts; its working folder is the scratch from here on."""
        scratch = Path(request.scratch)
        scratch.mkdir(exist_ok=True)
        confined = Spawn(
            role="candidate",
            scratch=str(scratch),
            memory_bytes=HOST_MEMORY,
            threads=1,
            confine=True,
            device=self._device,
            programs=request.programs,
        )
        layers = ["process", *self._left]
        # What it may go on to see although it is shut off.
        os.environ["KERNELSWARM_ARTIFACTS"] = request.artifacts
        if self._doors == "closed":
            if "netns" not in layers:
                with suppress(OSError):
                    linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWIPC)
                    layers.append("netns")
            # Without a PID namespace of its own "procfs" would promise what does not hold.
            layers += [layer for layer in sandbox.separate_files(confined) if layer != "procfs"]
            # Nsight Compute shares files with what it profiles, and nobody says which.
            layers += sandbox.wall_in(confined) if self._mode != "counters" else ()
        os.chdir(scratch)
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
            os.environ[name] = str(scratch)
        return (*layers, *sandbox.limit(confined, counts=self._mode == "counters"))

    def measure(self) -> bytes:
        """Call it; returns what the profiler wrote."""
        modes = {"trace": self._trace, "counters": self._counters, "scopes": self._scopes}
        return modes[self._mode]()

    def _trace(self) -> bytes:
        assert self._flush is not None
        flush = self._flush

        def calls() -> None:
            # Every call finds the cache as it does when it is timed, and the flushes tell one call from the next.
            for inputs in self._turns(CALLS):
                flush()
                self._call(*inputs)

        return self._traced(calls)

    def _counters(self) -> bytes:
        self._counted(lambda: self._call(*self._copies[0]))
        return b""

    def _counted(self, work: Callable[[], object]) -> None:
        """Do ``work`` between the marks that ``ncu --profile-from-start off`` looks for."""
        import torch

        torch.cuda.profiler.start()
        work()
        self._synchronize()
        torch.cuda.profiler.stop()

    def _scopes(self) -> bytes:
        """Kernels with scopes of ``triton.profiler.language`` in them are compiled anew with the scopes on."""
        import triton.profiler as proton
        import triton.profiler.language as marks

        # Off by default: Triton may move operations over a mark. It is the author who put it there.
        marks.enable_semantic("triton")
        proton.start("proton", backend="instrumentation")
        self._call(*self._copies[0])
        self._synchronize()
        proton.finalize()
        return Path("proton.hatchet").read_bytes()

    def _traced(self, work: Callable[[], object]) -> bytes:
        """What torch.profiler records on the device while ``work`` runs, as a Chrome trace."""
        import torch
        from torch.profiler import ProfilerActivity

        # The device's activity alone: recording every operator would slow the launches whose gaps we look for.
        activity = ProfilerActivity.CPU if self._device == HOST else ProfilerActivity.CUDA
        with torch.profiler.profile(activities=[activity]) as profiler:
            work()
            self._synchronize()
        path = Path("trace.json")
        profiler.export_chrome_trace(str(path))
        try:
            return path.read_bytes()
        finally:
            path.unlink()

    def _synchronize(self) -> None:
        import torch

        if self._device != HOST:
            torch.cuda.synchronize()

    def _turns(self, calls: int) -> Iterator[list[Any]]:
        return islice(cycle(self._copies), calls)


def _imported(request: Inspect, setup: Sequence[Any] | None) -> Callable[..., object]:
    """The candidate, ready to be called.

    Raises:
        Refused: it does not import, or lacks ``kernel`` / ``ModelNew``.
    """
    from ...languages._triton_runtime import unpack, use
    from ...languages.program_runs import played_back
    from ..calls.candidate_state import build_model
    from ..calls.user_module import import_source

    cache = Path.cwd() / "triton"
    use(cache)
    for name in request.ahead:
        unpack(Path(request.artifacts) / name, cache)
    module: Any
    call: Callable[..., object]
    with played_back(Path.cwd(), [Path(request.artifacts) / name for name in request.built]):
        module = import_source("candidate", request.source, kind="load")
        if request.format is ProblemFormat.function:
            call = module.kernel
        else:
            assert setup is not None
            call, _ = build_model(module, setup)
    if not request.backward:
        return call
    from ..calls.backward import differentiated

    own = getattr(module, "backward", None)
    return differentiated(call, own if callable(own) else None)


def _mapped(described: Values, files: Sequence[int]) -> Any:
    from ..tensors.values import MappedFile

    return MappedFile(files[0] if files else -1, described.size)
