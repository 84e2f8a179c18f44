"""The run: every chosen problem once, each in a session of its own, on one bus and recorder and the pool's devices.

What is done stands in the CSV file, what is under way in the event log: a run that was killed goes on with both.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from msgspec.structs import replace

from ...hardware.device import Device
from ...hardware.platforms import detect
from ...hardware.pool_files import find_pool
from ...hardware.problem_files import load_problem
from ...schemas import HardwareFacts, Pool, ProblemError, encode, sha256
from ...sessions.search import joined_bus
from .checkout import Task, chosen, tasks_of
from .judging import Bench, first, judge
from .planning import plan
from .progress import Progress, Watcher, progress_of
from .report import Report, report_on
from .results_table import Sheet, open_sheet
from .resumption import resume
from .row import Outcome, Row
from .run_configuration import Order


async def bench(order: Order, watcher: Watcher | None = None) -> Report:
    """Run what is not done yet, and report on all that was chosen.

    A problem that is refused, crashes or takes too long is a row. Cancelled, it leaves the session under way open: the
    next call goes on with it.

    Raises:
        InputError: the checkout, the choice, an option, the pool or the CSV file cannot be used.
        BusError, StoreError: the bus or the log failed, which no other problem would survive.
    """
    order.check()
    tasks = _tasks(order)
    pool = find_pool(order.pool, order.home)
    watcher = watcher or Watcher()
    with open_sheet(order.csv) as sheet:
        watcher.notice(f"looking at the hardware of pool {pool.name}")
        hardware = await asyncio.to_thread(detect, pool, order.home)
        run = _Run(order, tasks, sheet, watcher, _blank(order, pool, hardware))
        await run.resumable()
        if run.todo:
            async with _opened(order, pool, hardware, watcher) as lanes:
                await run.rest(lanes)
        return _report(order, tasks, sheet)


def report_so_far(order: Order) -> Report:
    """The report on what is done, also while a command adds to it.

    Raises:
        InputError: the checkout, the choice or the CSV file cannot be used.
    """
    return _report(order, _tasks(order), Sheet(order.csv))


class _Run:
    """The problems of one call."""

    def __init__(self, order: Order, tasks: Sequence[Task], sheet: Sheet, watcher: Watcher, blank: Row) -> None:
        """``blank`` is what every row says of the run."""
        self._order, self._tasks, self._sheet, self._watcher = order, tasks, sheet, watcher
        self._rows = {task.name: _row(blank, task) for task in tasks}
        entries = [(task, sheet.get(task), self._rows[task.name]) for task in tasks]
        self._plan = plan(entries, fresh=order.fresh, retry=order.retry)
        self._again = set(self._plan.again)
        self._seconds: list[float] = []
        self._at_once = 1
        self.todo = list(self._plan.todo)
        for line in self._plan.messages:
            watcher.say(line)

    async def resumable(self) -> None:
        """Go on with the sessions that were under way when an earlier run ended."""
        for row in self._plan.resumable:
            task = next(task for task in self.todo if task.name == row.problem)
            done = await resume(self._order, row, self._watcher.began(task, self._progress()))
            if done is not None:
                self._done(task, done)

    async def rest(self, lanes: Sequence[Bench]) -> None:
        """Do what is left, in each lane one after the other.

        Raises:
            BusError, StoreError, InputError: what ends one lane ends them all.
        """
        self._at_once = len(lanes)
        waiting = iter(list(self.todo))
        try:
            async with asyncio.TaskGroup() as running:
                for on in lanes:
                    running.create_task(self._lane(on, waiting))
        except ExceptionGroup as failed:
            raise first(failed) from failed

    async def _lane(self, on: Bench, waiting: Iterator[Task]) -> None:
        for task in waiting:
            spectator = self._watcher.began(task, self._progress())
            row = replace(self._rows[task.name], at=datetime.now(UTC).isoformat(timespec="seconds"))
            self._done(task, await judge(on, task, row, self._sheet.put, spectator))

    def _progress(self) -> Progress:
        rows = [row for row in self._sheet.finished(self._tasks) if row.problem not in self._again]
        return progress_of(rows, len(self._tasks), self._seconds, self._at_once)

    def _done(self, task: Task, row: Row) -> None:
        self._sheet.put(row)
        self._again.discard(task.name)
        self.todo.remove(task)
        self._seconds.append(row.seconds)
        self._watcher.finished(row, self._progress())


@asynccontextmanager
async def _opened(
    order: Order, pool: Pool, hardware: HardwareFacts, watcher: Watcher
) -> AsyncIterator[Sequence[Bench]]:
    """What the problems of each lane stand on; lanes beyond the number of devices share them."""
    async with AsyncExitStack() as stack:
        every = max(1, len(hardware.accelerators))
        used = range(min(every, order.at_once or every))
        devices = [await stack.enter_async_context(Device(pool, hardware, order.home, accelerator=n)) for n in used]
        watcher.notice("starting the bus")
        joined = await stack.enter_async_context(joined_bus(order.home, order.nats, watcher.notice))
        lanes = range(order.at_once or every)
        yield [Bench(order, pool, hardware, devices[lane % len(devices)], joined) for lane in lanes]


def _tasks(order: Order) -> list[Task]:
    return chosen(tasks_of(order.root, order.level), order.problems)


def _report(order: Order, tasks: Sequence[Task], sheet: Sheet) -> Report:
    rows = sheet.finished(tasks)
    return report_on(rows, level=order.level, pool=order.pool, problems=len(tasks), path=str(order.csv))


def _row(blank: Row, task: Task) -> Row:
    return replace(blank, number=task.number, problem=task.name, problem_sha256=_hash(task))


def _hash(task: Task) -> str:
    """As the log has it; of a file that is no problem nothing, which judging it will say."""
    try:
        return load_problem(task.path).sha256
    except ProblemError:
        return ""


def _blank(order: Order, pool: Pool, hardware: HardwareFacts) -> Row:
    return Row(
        level=order.level,
        number=0,
        problem="",
        verdict=Outcome.running,
        pool=pool.name,
        pool_sha256=sha256(encode(pool))[:12],
        device=hardware.device,
        budget=order.budget,
        minutes_per_problem=order.minutes_per_problem,
        seed=order.seed,
        synthesizer=order.synthesizer,
        model=order.model,
        versions=_versions(hardware),
    )


def _versions(hardware: HardwareFacts) -> str:
    own = [f"kernelswarm {version('kernelswarm')}", f"torch {hardware.torch}", *hardware.compilers[:1]]
    return ", ".join([*own, *(f"{name} {text}" for name, text in sorted(hardware.versions.items()) if text)])


__all__ = ["bench", "report_so_far"]
