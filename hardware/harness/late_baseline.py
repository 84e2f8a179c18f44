"""A baseline that is compiled in the background, for the caches on disk, while candidates are judged against others.

A second process compiles it, less urgently than anybody, and stands still while something is timed. On an accelerator
it tries kernels beside those who are judged: it takes the least of many timings of each. It had the device alone for
that, but it compiles most of the time: for three minutes it held up three sessions at every step. Once it is done the
baselines' process takes it from the caches, in seconds.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from ...schemas import BaselineStatus, HarnessError, ShapeFacts
from ..machine.lease import Lease
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.messages import Done, Failure
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .baseline_process import BaselineProcess
from .deaths import ended_in_words
from .launcher import Launcher
from .messages.commands import Opened
from .messages.timing import Build, Built, Upload
from .reference_process import ask_reference
from .validation_process import is_large_call

NAME = "max_autotune"
"""The baseline that is worth it: it takes a minute where the others take seconds."""

WORK_SECONDS = 600.0
"""How long it may work, without the time in which it stands still."""

PENDING = BaselineStatus(
    name=NAME, ok=False, seconds=0.0, detail="compiled in the background, joins when it is there", pending=True
)
LATE = "it was still being compiled when the session had no more time for it"


class LateBaseline:
    """Max-autotune of one problem at one timed shape."""

    def __init__(self, launcher: Launcher, timing: BaselineProcess, lease: Lease) -> None:
        """From now on ``timing`` does without it."""
        self._launcher, self._timing, self._lease = launcher, timing, lease
        self._task: asyncio.Task[BaselineStatus] | None = None
        self._joined = False
        self.pid = 0
        """Of the process that compiles it, as we see it; 0 if there is none."""
        self._users = 0
        self._changed = asyncio.Condition()
        timing.late[NAME] = PENDING

    def start(self) -> None:
        """Begin to compile it, once the other baselines are ready. A second time it does nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._compiled(), name="max-autotune in the background")

    @contextlib.asynccontextmanager
    async def compared(self, patience: float) -> AsyncIterator[str]:
        """Time a candidate in the body, against it if it is there within ``patience`` seconds.

        The body gets why it is not, as a clause, or "". It never comes in the middle of another body: all processes of
        a candidate are timed against the same baselines.
        """
        self.start()
        assert self._task is not None
        if patience > 0:
            await asyncio.wait({self._task}, timeout=patience)
        async with self._changed:
            if self._task.done() and not self._joined:
                await self._changed.wait_for(lambda: not self._users)
                # Others may have waited for that, too.
                if not self._joined:
                    self._join(self._task.result())
            self._users += 1
        try:
            status = self._timing.late.get(NAME)
            yield "" if status is None else LATE if status.pending else status.detail
        finally:
            async with self._changed:
                self._users -= 1
                self._changed.notify_all()

    @property
    def is_pending(self) -> bool:
        """Whether it may still join."""
        return not self._joined

    async def close(self) -> None:
        """Give it up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _join(self, status: BaselineStatus) -> None:
        self._joined = True
        if status.ok:
            # It is built beside the others when they are asked for next, from the caches.
            del self._timing.late[NAME]
            return
        self._timing.late[NAME] = status
        if self._timing.report is not None:
            statuses = tuple(status if old.name == NAME else old for old in self._timing.report.statuses)
            self._timing.report = replace(self._timing.report, statuses=statuses)

    async def _compiled(self) -> BaselineStatus:
        began = time.monotonic()
        try:
            # Beside whoever is judged meanwhile; what follows is taken in slices.
            async with self._lease.shared():
                worker = await self._launcher.spawn("baseline", memory_bytes=self._launcher.reference_memory)
                worker.yield_to_others()
                self.pid = worker.pid
        except HarnessError as error:
            return _failed(str(error), began)
        try:
            return await in_slices(lambda: self._built(worker), self._lease, worker.send, limit_s=WORK_SECONDS)
        except WorkerDied as error:
            return _failed(f"its process {ended_in_words(error)}", began)
        except (WorkerConfused, HarnessError, TimeoutError) as error:
            return _failed(str(error), began)
        finally:
            self.pid = 0
            await asyncio.shield(worker.kill())

    async def _built(self, worker: Worker) -> BaselineStatus:
        timed = self._timing.timed
        await ask_reference(worker, timed.host.command, Opened, seconds=NO_LIMIT)
        state = await timed.state()
        for case in await timed.cases():
            upload = Upload(inputs=case.inputs, state=state)
            await ask_reference(worker, upload, Done, [case.file], seconds=NO_LIMIT)
        built, _ = await worker.ask(Build(name=NAME), Built, seconds=NO_LIMIT)
        if isinstance(built, Failure):
            return BaselineStatus(name=NAME, ok=False, seconds=0.0, detail=built.message)
        if built.ok:
            mark = _mark(self._launcher, self._timing)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return BaselineStatus(name=NAME, ok=built.ok, seconds=built.seconds, detail=built.detail)


def _mark(launcher: Launcher, timing: BaselineProcess) -> Path:
    """A file among the caches that says that they hold it."""
    return launcher.caches / "max_autotune" / timing.cache_key


def _failed(why: str, began: float) -> BaselineStatus:
    return BaselineStatus(name=NAME, ok=False, seconds=time.monotonic() - began, detail=why)


class LateBaselines:
    """Those of a device's problems, by sha256 and timed shape."""

    def __init__(self, launcher: Launcher, lease: Lease, baselines: Sequence[str]) -> None:
        """``baselines`` are the pool's; without max-autotune, or something to begin with, nothing is late."""
        self._launcher, self._lease = launcher, lease
        self._is_used = NAME in baselines and len(baselines) > 1
        self._by_problem: dict[str, dict[str, LateBaseline]] = defaultdict(dict)
        self._announced: set[str] = set()

    def add(self, key: str, shape: ShapeFacts, timing: BaselineProcess) -> None:
        """Have ``timing`` begin without it, unless memory has no room for a second process of that size.

        Nor where an earlier session has compiled it: from the caches it is there as soon as the others.
        """
        if self._is_used and not is_large_call(shape) and not _mark(self._launcher, timing).exists():
            self._by_problem[key][shape.name] = LateBaseline(self._launcher, timing, self._lease)

    def start(self, key: str) -> None:
        """Begin to compile those of a problem."""
        for late in self._by_problem[key].values():
            late.start()

    @contextlib.asynccontextmanager
    async def compared(self, key: str, shape: str, patience: float) -> AsyncIterator[dict[str, str]]:
        """As :meth:`LateBaseline.compared`; the body gets :attr:`.Timing.absent`."""
        late = self._by_problem[key].get(shape)
        if late is None:
            yield {}
            return
        async with late.compared(patience) as why:
            yield {NAME: why} if why else {}

    def is_news(self, key: str) -> bool:
        """Whether those of a problem have come to an end since this was asked last; True once."""
        lates = self._by_problem.get(key, {})
        if not lates or key in self._announced or any(late.is_pending for late in lates.values()):
            return False
        self._announced.add(key)
        return True

    async def close(self, key: str) -> None:
        """Give those of a problem up."""
        self._announced.discard(key)
        for late in self._by_problem.pop(key, {}).values():
            await late.close()
