"""The run: every chosen problem once, each in a session of its own, on one bus and recorder and the pool's devices.

What is done stands in the CSV file, what is under way in the event log: a run that was killed goes on with both.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from msgspec.structs import replace

from ...agents.synthesizer.authors import spelled
from ...hardware.device import Device
from ...hardware.platforms import detect
from ...hardware.pools.pool_files import find_pool
from ...schemas import HardwareFacts, Pool, ProblemError, encode, sha256
from ...sessions.connection import joined_bus
from .benchmark import Task
from .judging import Bench, first, judge
from .markdown import write_markdown
from .planning import plan
from .progress import Progress, Watcher, progress_of
from .report import Report, report_on
from .result_files import opened_alone
from .results_table import ResultsTable
from .resumption import resume
from .row import Outcome, Row
from .run_configuration import RunConfiguration
from .selection import selected


async def run_benchmark(configuration: RunConfiguration, watcher: Watcher | None = None) -> Report:
    """Run what is not done yet, and report on all that was chosen.

    A problem that is refused, crashes or takes too long is a row. Cancelled, it leaves the session under way open: the
    next call goes on with it.

    Raises:
        InputError: the checkout, the choice, an option, the pool or the CSV file cannot be used.
        BusError, StoreError: the bus or the log failed, which no other problem would survive.
    """
    configuration.check()
    tasks = _tasks(configuration)
    pool = find_pool(configuration.pool, configuration.home)
    watcher = watcher or Watcher()
    with opened_alone(configuration.csv, ResultsTable) as results:
        watcher.notice(f"looking at the hardware of pool {pool.name}")
        hardware = await asyncio.to_thread(detect, pool, configuration.home)
        run = _Run(configuration, tasks, results, watcher, _blank(configuration, pool, hardware))
        try:
            if run.todo:
                async with _opened(configuration, pool, hardware, watcher) as slots:
                    await run.run_remaining(slots)
        finally:
            write_markdown(_report(configuration, tasks, results))
        return _report(configuration, tasks, results)


def report_so_far(configuration: RunConfiguration) -> Report:
    """The report on what is done, also while a command adds to it.

    Raises:
        InputError: the checkout, the choice or the CSV file cannot be used.
    """
    return _report(configuration, _tasks(configuration), ResultsTable(configuration.csv))


class _Run:
    """The problems of one call."""

    def __init__(
        self,
        configuration: RunConfiguration,
        tasks: Sequence[Task],
        results: ResultsTable,
        watcher: Watcher,
        blank: Row,
    ) -> None:
        """``blank`` is what every row says of the run."""
        self._configuration, self._tasks, self._results, self._watcher = configuration, tasks, results, watcher
        self._rows = {task.key: _row(blank, task) for task in tasks}
        entries = [(task, results.get(task), self._rows[task.key]) for task in tasks]
        planned = plan(entries, fresh=configuration.fresh, retry=configuration.retry)
        self._again = set(planned.again)
        self._under_way = {row.key: row for row in planned.resumable}
        self._seconds: list[float] = []
        self._at_once = 1
        self.todo = list(planned.todo)
        for line in planned.messages:
            watcher.say(line)

    async def run_remaining(self, slots: Sequence[Bench]) -> None:
        """Do what is left, in each slot one problem after the other; first what was under way when a run ended.

        Raises:
            BusError, StoreError, InputError: what ends one slot ends them all.
        """
        self._at_once = len(slots)
        waiting = iter(sorted(self.todo, key=lambda task: task.key not in self._under_way))
        try:
            async with asyncio.TaskGroup() as running:
                for on in slots:
                    running.create_task(self._run_slot(on, waiting))
        except ExceptionGroup as failed:
            raise first(failed) from failed

    async def _run_slot(self, on: Bench, waiting: Iterator[Task]) -> None:
        for task in waiting:
            spectator = self._watcher.began(task, self._progress())
            left = self._under_way.get(task.key)
            done = await resume(on, left, spectator) if left is not None else None
            if done is None:
                row = replace(self._rows[task.key], at=datetime.now(UTC).isoformat(timespec="seconds"))
                done = await judge(on, task, row, self._results.put, spectator)
            self._done(task, done)

    def _progress(self) -> Progress:
        rows = [row for row in self._results.finished(self._tasks) if row.key not in self._again]
        return progress_of(rows, len(self._tasks), self._seconds, self._at_once)

    def _done(self, task: Task, row: Row) -> None:
        self._results.put(row)
        self._again.discard(task.key)
        self.todo.remove(task)
        self._seconds.append(row.seconds)
        self._watcher.finished(row, self._progress())


@asynccontextmanager
async def _opened(
    configuration: RunConfiguration, pool: Pool, hardware: HardwareFacts, watcher: Watcher
) -> AsyncIterator[Sequence[Bench]]:
    """What the problems of each concurrent slot use; slots beyond the number of devices share devices."""
    async with AsyncExitStack() as stack:
        every = max(1, len(hardware.accelerators))
        used = range(min(every, configuration.at_once or every))
        devices = [
            await stack.enter_async_context(Device(pool, hardware, configuration.home, accelerator=n, background=True))
            for n in used
        ]
        watcher.notice("starting the bus")
        joined = await stack.enter_async_context(joined_bus(configuration.home, configuration.nats, watcher.notice))
        slots = range(configuration.at_once or every)
        yield [Bench(configuration, pool, hardware, devices[slot % len(devices)], joined) for slot in slots]


def _tasks(configuration: RunConfiguration) -> list[Task]:
    tasks = configuration.benchmark.tasks(configuration.root, configuration.choices)
    return selected(tasks, configuration.problems)


def _report(configuration: RunConfiguration, tasks: Sequence[Task], results: ResultsTable) -> Report:
    return report_on(configuration, results.finished(tasks), problems=len(tasks))


def _row(blank: Row, task: Task) -> Row:
    return replace(blank, subset=task.subset, number=task.number, problem=task.name, problem_sha256=_hash(task))


def _hash(task: Task) -> str:
    """As the log has it; of a task that is no problem nothing, which judging it will say."""
    try:
        return task.load().sha256
    except ProblemError:
        return ""


def _blank(configuration: RunConfiguration, pool: Pool, hardware: HardwareFacts) -> Row:
    return Row(
        number=0,
        problem="",
        verdict=Outcome.running,
        pool=pool.name,
        pool_sha256=sha256(encode(pool))[:12],
        device=hardware.device,
        budget=configuration.search.budget,
        minutes_per_problem=configuration.minutes_per_problem,
        seed=configuration.search.seed,
        synthesizer=spelled(configuration.options(configuration.minutes_per_problem).authors),
        model=configuration.search.model,
        versions=_versions(hardware),
    )


def _versions(hardware: HardwareFacts) -> str:
    own = [f"kernelswarm {version('kernelswarm')}", f"torch {hardware.torch}", *hardware.compilers[:1]]
    return ", ".join([*own, *(f"{name} {text}" for name, text in sorted(hardware.versions.items()) if text)])
