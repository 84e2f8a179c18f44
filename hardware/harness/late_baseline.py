"""Compiles slow baselines in the background, for the caches on disk, while candidates are judged against the others.

A process of its own compiles such a baseline, less urgently than anybody, and stands still while something is timed. On
an accelerator it tries kernels beside those who are judged: it takes the least of many timings of each. It had the
device alone for that, but it compiles most of the time: for three minutes it held up three sessions at every step. Once
it is done the baselines' process takes it from the caches, in seconds.

Max-autotune begins so. Another baseline is late once it has held up the others for :data:`.LATE_AFTER_SECONDS`: the
process in which it is compiled goes on here, and the others get a new one.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...schemas import BaselineStatus, HarnessError, ProfileReport, ShapeFacts
from ..machine.lease import Lease
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .baseline_compilation import WORK_SECONDS, build, missing, pending, upload
from .baseline_process import BaselineProcess
from .deaths import ended_in_words
from .launcher import Launcher
from .timing.effort import Effort
from .validation_process import is_large_call

MAX_AUTOTUNE = "max_autotune"
"""The baseline that is late from the beginning: it takes a minute where the others take seconds."""

LATE = "it was still being compiled when the candidate was timed"


def without(report: ProfileReport, late: Sequence[BaselineStatus]) -> ProfileReport:
    """``report`` with what it was not compared with."""
    if report.timing is None or not late:
        return report
    absent = {status.name: LATE if status.pending else status.detail for status in late}
    pending = tuple(status.name for status in late if status.pending)
    return replace(report, timing=replace(report.timing, absent=absent, pending=pending))


async def _waited(wanted: Sequence[asyncio.Task[BaselineStatus]], effort: Effort) -> None:
    """Wait for ``wanted`` while ``effort`` is patient."""
    patience = effort.patient_until - time.monotonic()
    if patience <= 0:
        return
    waiting: list[asyncio.Future[object]] = [asyncio.ensure_future(asyncio.wait(wanted))]
    if effort.hurried is not None:
        waiting.append(asyncio.ensure_future(effort.hurried()))
    try:
        await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


class BackgroundCompilation:
    """The late baselines of one problem at one timed shape."""

    def __init__(self, launcher: Launcher, timing: BaselineProcess, lease: Lease, names: Sequence[str]) -> None:
        """From now on ``timing`` does without ``names``, and hands over what takes long."""
        self._launcher, self._timing, self._lease = launcher, timing, lease
        self._names = names
        self._tasks: dict[str, asyncio.Task[BaselineStatus]] = {}
        self.joined: set[str] = set()
        """Late baselines that came to an end, and that the timing knows of."""
        self.pids: dict[str, int] = {}
        """Of the processes that compile, as we see them, by baseline."""
        self._users = 0
        self._changed = asyncio.Condition()
        timing.late |= {name: pending(name) for name in names}
        timing.hand_over = self._take_over

    def start(self) -> None:
        """Begin to compile, once the other baselines are ready. A second time it does nothing."""
        for name in self._names:
            if name not in self._tasks:
                self._add(name, self._compiled(name, [*self._tasks.values()]))

    @property
    def names(self) -> set[str]:
        """Baselines that are late, or were."""
        return {*self._names, *self._tasks}

    @contextlib.asynccontextmanager
    async def compared(self, effort: Effort) -> AsyncIterator[tuple[BaselineStatus, ...]]:
        """Time a candidate in the body, against those that are there while ``effort`` is patient.

        The body gets what is said of the others. None comes in the middle of another body: all processes of a
        candidate are timed against the same baselines.
        """
        self.start()
        wanted = [task for name, task in self._tasks.items() if effort.against in ("best", name)]
        if not all(task.done() for task in wanted):
            await _waited(wanted, effort)
        async with self._changed:
            if self._done():
                await self._changed.wait_for(lambda: not self._users)
                # Others may have waited for that, too.
                for name in self._done():
                    self._join(name, self._tasks[name].result())
            self._users += 1
        try:
            yield tuple(self._timing.late.values())
        finally:
            async with self._changed:
                self._users -= 1
                self._changed.notify_all()

    async def close(self) -> None:
        """Give them up."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def _add(self, name: str, compiled: Coroutine[Any, Any, BaselineStatus]) -> None:
        self._tasks[name] = asyncio.create_task(compiled, name=f"{name} in the background")

    def _done(self) -> list[str]:
        return [name for name, task in self._tasks.items() if task.done() and name not in self.joined]

    def _join(self, name: str, status: BaselineStatus) -> None:
        self.joined.add(name)
        if status.ok:
            # It is built beside the others when they are asked for next, from the caches.
            del self._timing.late[name]
            return
        self._timing.late[name] = status
        if self._timing.report is not None:
            statuses = tuple(status if old.name == name else old for old in self._timing.report.statuses)
            self._timing.report = replace(self._timing.report, statuses=statuses)

    def _take_over(self, name: str, worker: Worker, built: asyncio.Task[BaselineStatus]) -> None:
        """Let ``worker`` go on compiling."""
        self._add(name, self._ended(name, worker, built))

    async def _compiled(self, name: str, before: Sequence[asyncio.Task[BaselineStatus]]) -> BaselineStatus:
        """Compile it in a process of its own, after those ``before``: memory holds one process more."""
        if before:
            await asyncio.wait(before)
        try:
            # Beside whoever is judged meanwhile; what follows is taken in slices.
            async with self._lease.shared():
                worker = await self._launcher.spawn("baseline", memory_bytes=self._launcher.reference_memory)
        except HarnessError as error:
            return missing(name, str(error))
        work = in_slices(lambda: self._built(name, worker), self._lease, worker.send, limit_s=WORK_SECONDS)
        return await self._ended(name, worker, asyncio.ensure_future(work))

    async def _ended(self, name: str, worker: Worker, built: asyncio.Future[BaselineStatus]) -> BaselineStatus:
        """What ``built`` comes to, which ``worker`` works on."""
        began = time.monotonic()
        worker.yield_to_others()
        self.pids[name] = worker.pid
        try:
            status = await built
        except WorkerDied as error:
            return missing(name, f"its process {ended_in_words(error)}", time.monotonic() - began)
        except (WorkerConfused, HarnessError, TimeoutError) as error:
            return missing(name, str(error), time.monotonic() - began)
        finally:
            del self.pids[name]
            built.cancel()
            await asyncio.shield(worker.kill())
        if status.ok and name in self._names:
            mark = _mark(self._launcher, self._timing)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return status

    async def _built(self, name: str, worker: Worker) -> BaselineStatus:
        await upload(worker, self._timing.timed, seconds=NO_LIMIT)
        return await build(name, worker)


def _mark(launcher: Launcher, timing: BaselineProcess) -> Path:
    """A file among the caches that says that they hold max-autotune."""
    return launcher.caches / MAX_AUTOTUNE / timing.cache_key


class LateBaselines:
    """Those of a device's problems, by sha256 and timed shape."""

    def __init__(self, launcher: Launcher, lease: Lease, baselines: Sequence[str]) -> None:
        """``baselines`` are the pool's; where there is none to begin with, nothing is late."""
        self._launcher, self._lease, self._baselines = launcher, lease, baselines
        self._by_problem: dict[str, dict[str, BackgroundCompilation]] = defaultdict(dict)
        self._announced: dict[str, int] = defaultdict(int)
        """How many of a problem were said to have come to an end."""

    def add(self, key: str, shape: ShapeFacts, timing: BaselineProcess) -> None:
        """Let baselines of ``timing`` be late, unless memory has no room for a second process of that size.

        Max-autotune is late from the beginning, but where an earlier session has compiled it: from the caches it is
        there as soon as the others.
        """
        if len(self._baselines) > 1 and not is_large_call(shape):
            is_late = MAX_AUTOTUNE in self._baselines and not _mark(self._launcher, timing).exists()
            names = (MAX_AUTOTUNE,) if is_late else ()
            compilation = BackgroundCompilation(self._launcher, timing, self._lease, names)
            self._by_problem[key][shape.name] = compilation

    def start(self, key: str) -> None:
        """Begin to compile those of a problem."""
        for compilation in self._by_problem[key].values():
            compilation.start()

    @contextlib.asynccontextmanager
    async def compared(self, key: str, shape: str, effort: Effort) -> AsyncIterator[tuple[BaselineStatus, ...]]:
        """As :meth:`BackgroundCompilation.compared`."""
        compilation = self._by_problem[key].get(shape)
        if compilation is None:
            yield ()
            return
        async with compilation.compared(effort) as late:
            yield late

    def is_news(self, key: str) -> bool:
        """Whether more of a problem have come to an end, at all shapes, since this was asked last; True once."""
        compilations = self._by_problem.get(key, {}).values()
        names = {name for compilation in compilations for name in compilation.names}
        ended = {name for name in names if all(name in late.joined for late in compilations if name in late.names)}
        is_news = len(ended) > self._announced[key]
        self._announced[key] = len(ended)
        return is_news

    async def close(self, key: str) -> None:
        """Give those of a problem up."""
        self._announced.pop(key, None)
        for compilation in self._by_problem.pop(key, {}).values():
            await compilation.close()
