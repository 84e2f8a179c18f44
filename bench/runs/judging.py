"""One problem: validated, searched in a session of its own, and brought to a row whatever happens."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from ...hardware.device import Device
from ...schemas import BusError, HardwareFacts, InputError, Pool, Problem, ProblemError, ProblemFacts, StoreError
from ...sessions.connection import Joined
from ...sessions.search import Search, session_on
from ...sessions.search_context import SearchContext
from ...sessions.session import new_session_id
from ...sessions.spectator import Spectator
from ...store import run_sql
from . import reading
from .benchmark import Task
from .row import Row
from .run_configuration import RunConfiguration

OVERTIME = 0.25
"""Share of its minutes that a session may take beyond them to confirm its finalists."""

LEAST_OVERTIME_S = 60.0

CLOSE_S = 30.0
"""How long a session that is cut off may take to close."""

FATAL = (BusError, StoreError, InputError)
"""Errors that may be about more than one problem: what they are about has to answer before the next one begins."""

ANSWER_S = 60.0
"""How long bus and recorder may take to answer then."""

Write = Callable[[Row], None]


@dataclass(frozen=True)
class Bench:
    """What all problems of a run stand on."""

    configuration: RunConfiguration
    pool: Pool
    hardware: HardwareFacts
    device: Device
    joined: Joined


class _TooLong(Exception):
    """A problem used its time up; the message says where."""


async def judge(on: Bench, task: Task, row: Row, write: Write, spectator: Spectator) -> Row:
    """The row of ``task``; ``write`` gets it with its session before that is opened, so that a kill can be mended.

    Raises:
        BusError, StoreError, InputError: the bus or its recorder does not answer any more: not the problem's fault, and
            the next one would fare no better.
    """
    began = time.monotonic()
    problem: Problem | None = None
    validated_s = 0.0
    closed: Row | None = None
    try:
        problem = task.load()
        on.device.memory.notify(problem, spectator.waiting)
        facts = await _validated(on, problem, spectator)
        validated_s = time.monotonic() - began - on.device.memory.waited_s(problem)
        row = replace(row, session=new_session_id(problem.name), **_precision(on.pool, facts, problem))
        write(row)
        left_s = max(1.0, on.configuration.minutes_per_problem * 60 - validated_s)
        context = SearchContext(
            problem, facts, on.pool, on.hardware, on.device, on.joined, on.configuration.home, on.configuration.nats
        )
        options = on.configuration.options(left_s / 60)
        # Before its minutes begin: beside large neighbours sessions waited for memory until these were over.
        async with (
            on.device.memory.using(problem, facts),
            session_on(context, options, session=row.session, roles=on.configuration.roles) as search,
        ):
            await follow(search, left_s, spectator)
            closed = reading.row_of(row, search.graph, time.monotonic() - began, on.configuration.benchmark)
            closed = reading.with_validation(closed, validated_s)
    except ProblemError as error:
        return reading.refused(row, str(error), time.monotonic() - began)
    except _TooLong as error:
        late = reading.timed_out(row, str(error), time.monotonic() - began)
        return reading.with_validation(late, validated_s)
    except Exception as error:
        # Whatever broke costs this problem alone; a defect shows in the row.
        cause = first(error)
        if isinstance(cause, FATAL) and not await answers(on):
            raise
        if closed is not None:
            spectator.say(f"{row.problem}: its session is closed, and then: {cause}")
            return closed
        return reading.crashed(row, cause, time.monotonic() - began)
    else:
        return closed
    finally:
        if problem is not None:
            await asyncio.shield(on.device.forget(problem))


async def answers(on: Bench) -> bool:
    """Whether the bus and its recorder do."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await run_sql(on.configuration.home, "SELECT 1", bus=on.joined.bus)
    except (BusError, StoreError, TimeoutError):
        return False
    return True


async def follow(search: Search, left_s: float, spectator: Spectator) -> None:
    """Follow ``search`` to its close, which comes at the latest a little after ``left_s`` seconds.

    Raises:
        _TooLong: it does not even close when it is cut off.
    """
    search.wants_baselines = False  # no row has them without a kernel
    limit_s = left_s + max(LEAST_OVERTIME_S, OVERTIME * left_s)

    async def cut_off() -> None:
        await asyncio.sleep(limit_s)
        await search.stop("interrupted")

    cutting = asyncio.create_task(cut_off(), name="minutes per problem")
    watching_workers = asyncio.create_task(search.watch_workers(spectator.waiting), name="worker-availability")
    spectator.opened(search)
    try:
        async with asyncio.timeout(limit_s + CLOSE_S):
            async for envelope, event in search.events():
                spectator.show(envelope, event)
    except TimeoutError:
        if search.graph.closed is None:
            raise _TooLong(f"its session was not closed {CLOSE_S:.0f} s later{_at_work(search)}") from None
    finally:
        cutting.cancel()
        watching_workers.cancel()
        await asyncio.wait([cutting, watching_workers])


def _at_work(search: Search) -> str:
    """Who is at work on what of a session that does not close, and what it waits for."""
    busy = search.swarm.doing().items() if search.swarm is not None else ()
    steps = [f"{worker.split('.')[-2]} ({work.partition('/')[2] or 'the session'})" for worker, work in busy]
    texts = [f"at work: {', '.join(steps)}"] if steps else []
    return "".join(f"; {text}" for text in (*texts, reading.under_way(search.graph)) if text)


def first(error: BaseException) -> BaseException:
    """What went wrong inside the groups that concurrent tasks wrap errors in: one that ends the run before others."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, FATAL)), leaves[0])


async def _validated(on: Bench, problem: Problem, spectator: Spectator) -> ProblemFacts:
    """The facts of ``problem``; waiting for memory that others hold takes none of its minutes."""
    spectator.notice(f"validating {problem.name}: importing, checking, capturing")
    began = time.monotonic()
    validating = asyncio.create_task(on.device.validate_problem(problem), name="validating")
    try:
        while not validating.done():
            ends = began + on.configuration.minutes_per_problem * 60 + on.device.memory.waited_s(problem)
            if (left_s := ends - time.monotonic()) <= 0:
                raise _TooLong("it was still being validated")
            await asyncio.wait({validating}, timeout=left_s)
        return validating.result()
    finally:
        validating.cancel()
        await asyncio.wait({validating})


def _precision(pool: Pool, facts: ProblemFacts, problem: Problem) -> dict[str, str]:
    return {"precision": facts.dtype, "tf32": reading.tf32_of(pool, facts, problem.source)}
