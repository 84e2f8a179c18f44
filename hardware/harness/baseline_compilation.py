"""How a process compiles a baseline, and how long it may take."""

import time

from ...schemas import BaselineStatus
from ..machine.lease import Lease
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.messages import Done, Failure
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .deaths import ended_in_words
from .messages.commands import Opened
from .messages.timing import Build, Built, Upload
from .reference_commands import STEP_SECONDS, ask_reference
from .timed_shape import TimedShape

COMPILED_APART = ("compile",)
"""Baselines that are compiled without the device; max-autotune runs kernels while it compiles."""

BUILD_SECONDS = 180.0
"""Limit for compiling one baseline that is waited for. One that takes longer is reported as missing."""

LATE_AFTER_SECONDS = 15.0
"""How long a baseline may hold up the others: afterwards it is compiled in the background (:mod:`.late_baseline`)."""

WORK_SECONDS = 600.0
"""Limit for compiling one in the background, without the time in which it stands still."""


async def built_beside(name: str, worker: Worker, lease: Lease, *, limit_s: float) -> BaselineStatus:
    """What :func:`build` says, by a process that stands still while others time something on the device.

    On an accelerator it has compiled before, as long as no kernel has to run: in turns with who is timed torch.compile
    of MobileNetV2 took 160 s for 40 s of a core (six sessions on an H200).

    Raises:
        TimeoutError: that took more than ``limit_s``.
    """
    left_s = limit_s
    if name in COMPILED_APART and lease.drain_s:
        began = time.monotonic()
        status = await build(name, worker, runs=False, seconds=limit_s)
        if not worker.alive:
            return status
        left_s -= time.monotonic() - began
    return await in_slices(lambda: build(name, worker), lease, worker.send, limit_s=max(left_s, 1.0))


async def upload(worker: Worker, timed: TimedShape, *, seconds: float = STEP_SECONDS) -> None:
    """Give a process that was started for baselines the reference and its inputs.

    Raises:
        WorkerDied: it ended.
    """
    await ask_reference(worker, timed.host.command, Opened, seconds=seconds)
    state = await timed.state()
    for case in await timed.cases():
        await ask_reference(worker, Upload(inputs=case.inputs, state=state), Done, [case.file], seconds=seconds)


async def build(name: str, worker: Worker, *, runs: bool = True, seconds: float = NO_LIMIT) -> BaselineStatus:
    """Have ``worker`` compile a baseline; ``runs``: and run it.

    Raises:
        TimeoutError: it took more than ``seconds``; it has been killed.
    """
    try:
        built, _ = await worker.ask(Build(name=name, runs=runs), Built, seconds=seconds)
    except (WorkerDied, WorkerConfused) as error:
        return missing(name, f"its process {ended_in_words(error)}")
    if isinstance(built, Failure):
        return missing(name, built.message)
    return BaselineStatus(
        name=name, ok=built.ok, seconds=built.seconds, detail=built.detail, compiled=built.compiled, kept=built.kept
    )


def pending(name: str) -> BaselineStatus:
    """What is said of a baseline that is compiled in the background."""
    detail = "compiled in the background, joins when it is there"
    return BaselineStatus(name=name, ok=False, seconds=0.0, detail=detail, pending=True)


def missing(name: str, why: str, seconds: float = 0.0) -> BaselineStatus:
    """What is said of one that cannot be had."""
    return BaselineStatus(name=name, ok=False, seconds=seconds, detail=why)
