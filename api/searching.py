"""Searches: search for a faster kernel for a live function, a module or a problem file."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from .. import store
from ..bus import asked_bus
from ..graph.tasks import INTERRUPTED
from ..hardware.sources.dynamic_shapes import DynamicShapes
from ..hardware.sources.from_python import Traced
from ..hardware.sources.problem_files import load_problem
from ..hardware.sources.random_state import random_state_kept
from ..hardware.sources.several_calls import trace_calls
from ..hardware.sources.source_lines import described
from ..hardware.sources.trace_failures import reason_of
from ..schemas import InputError, Origin, ProblemError
from ..sessions.finished_file import finished_file
from ..sessions.fork import fork_point
from ..sessions.home import kernelswarm_home
from ..sessions.interrupts import Interrupts
from ..sessions.lineage import Step
from ..sessions.lineage import lineage as read_lineage
from ..sessions.recorded_session import RecordedSession, read_session
from ..sessions.search import searching
from ..sessions.search_options import ForkChoices, SearchChoices, SearchOptions, defaults, given
from ..store import Imported, Manifest, write_export
from .choices import taking
from .optimized import Optimized
from .progress import progress, step_text
from .questions import blocking


@taking(SearchChoices, defaults())
def optimize(
    operator: Callable[..., Any] | str | Path,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    weights: Sequence[float] = (),
    dynamic_shapes: DynamicShapes | None = None,
    pool: str = "cpu",
    nats: str = "",
    home: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
    **choices: Unpack[SearchChoices],
) -> Optimized:
    """Search for a faster kernel; blocks until the session is closed.

    The first process that searches in a home folder runs the event bus for the others there. It returns when these
    have ended, too, and says so on stderr; give each its own ``home``, or all a cluster by ``nats``, to avoid that.
    The caller's random numbers stay as they are.

    Args:
        operator: a function, an ``nn.Module``, or the path of a problem file.
        inputs: its arguments, by position or by name; not with a path. A list of several such, ``[[x], [y]]``: calls
            that are all timed. The speedup is the geometric mean over them, and the kernel is for each of them.
        weights: of the calls in that mean; by default all are alike.
        dynamic_shapes: sizes for which the kernel is as well, each with its range, as ``torch.export`` spells them:
            ``{"x": {0: torch.export.Dim("batch", min=1, max=64)}}``. Kernels have to be right at both ends and between;
            they are timed with ``inputs`` alone. Calls of other sizes go to the operator.
        pool: hardware pool.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: called with what happens, in a few words; ``print`` will do. By default a line on stderr says how far
            it is, where that is a terminal or a notebook; ``lambda text: None`` switches it off.
        choices: of the search.

    Raises:
        InputError: the operator, an input or an option cannot be used.
        BusError: the cluster cannot be reached.
        KeyboardInterrupt: Ctrl-C closed the session; ``result`` of the exception is what this would have returned.
            After a second Ctrl-C a session that was not closed by then stays open, and the message says how to resume
            it; ``result`` is None then, and where no session was open yet.
    """
    began = time.monotonic()
    options = SearchOptions(**given(choices))
    with progress(on_notice) as say:
        if callable(operator):
            say(f"tracing {described(operator)}")
        traced = problem_of(operator, inputs, weights, dynamic_shapes)
    root = kernelswarm_home(home)
    return _whole(blocking(partial(_search, traced, pool, options, root, nats, on_notice, began=began)))


@taking(ForkChoices, {})
def fork(
    parent: str | Optimized,
    *,
    node: str = "",
    at: str = "",
    pool: str = "",
    nats: str = "",
    home: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
    **choices: Unpack[ForkChoices],
) -> Optimized:
    """Go on from a place in another session, in a new one; blocks until that is closed.

    What is left out is as it was in ``parent``, but for limits of time and speedup.

    Args:
        parent: id of the session, or what :func:`optimize` returned.
        node: go on from this node and its ancestors, knowing what was known when it was diagnosed.
        at: id of an event: go on from everything that was known then.
        pool: hardware pool; on another one than the parent's everything is measured anew.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: called with what happens, in a few words; ``print`` will do. By default a line on stderr says how far
            it is, where that is a terminal or a notebook; ``lambda text: None`` switches it off.
        choices: of the search.

    Raises:
        InputError: there is no such session, node or event, or an option cannot be used.
        LogCorrupted: what it would go on from is not what was written; the first bad event is named.
        KeyboardInterrupt: as for :func:`optimize`.
        BusError: the cluster cannot be reached.
    """
    root = kernelswarm_home(home)
    session = parent.session if isinstance(parent, Optimized) else parent

    async def search(interrupts: Interrupts) -> Optimized:
        point = fork_point(await _recorded(root, session, nats), node, at)
        options = point.options(**choices)
        on = pool or point.opened.pool.name
        traced = parent.traced if isinstance(parent, Optimized) else Traced(point.opened.problem)
        return await _search(traced, on, options, root, nats, on_notice, interrupts, origin=point.origin)

    return _whole(blocking(search))


def lineage(session: str, node: str, *, nats: str = "", home: str | Path | None = None) -> list[Step]:
    """How a kernel came about: every step from the root to ``node``, through forks and seeds.

    Raises:
        InputError: there is no such session or node.
        LogCorrupted: a session on the way is not what was written; the first bad event is named.
    """
    root = kernelswarm_home(home)
    return blocking(read_lineage(session, node, lambda name: _recorded(root, name, nats, to_end=False)))


def export(
    format: str,
    out: str | Path,
    *,
    where: str = "",
    sessions: Sequence[str] = (),
    nats: str = "",
    home: str | Path | None = None,
) -> Manifest:
    """Export the log into the folder ``out``, without secrets; what ``docs/export.md`` describes.

    Args:
        format: ``sft``, ``dpo``, ``grpo``, ``events`` or ``parquet``.
        out: a folder that is not there yet, or an empty one.
        where: SQL condition on ``nodes`` (sft, dpo, grpo), ``events`` (events) or ``sessions`` (parquet).
        sessions: only these; none: all.
        nats: URL of the cluster whose recorder has the log; without it the log of this machine.
        home: as for :func:`optimize`.

    Raises:
        InputError: the folder, the format, a session or the condition cannot be used. Nothing was changed.
        StoreError: there is no usable log, or the disk is full. Nothing was changed.
    """
    where_to = Path(out)

    async def write() -> Manifest:
        async with asked_bus(nats) as bus:
            root = kernelswarm_home(home)
            return await write_export(root, format, where_to, where=where, sessions=sessions, bus=bus)

    return blocking(write())


def import_log(
    source: str | Path, *, sessions: Sequence[str] = (), without: Sequence[str] = (), home: str | Path | None = None
) -> Imported:
    """Take the events of another machine's log, or of an exported folder of events, into this one.

    Errors: :func:`kernelswarm.store.import_log`; after one of them nothing was changed.
    """
    return store.import_log(kernelswarm_home(home), Path(source), sessions=sessions, without=without)


def _whole(outcome: Optimized) -> Optimized:
    """Of a search that was not interrupted.

    Raises:
        KeyboardInterrupt: it was.
    """
    if outcome.result.reason != INTERRUPTED:
        return outcome
    session, best = outcome.session, outcome.result.best
    kernel = (
        f"its best kernel is in `result` of this exception and in `kernelswarm show {session} --file`, and "
        f"`kernelswarm fork {session} --node {best}` goes on from it"
        if best
        else "it has no correct kernel yet"
    )
    # No class of its own: Python ends with another status then, and a loop in a shell goes on.
    error: Any = KeyboardInterrupt(f"session {session} is closed: {kernel}")
    error.result = outcome
    raise error


async def _recorded(home: Path, session: str, nats: str, *, to_end: bool = True) -> RecordedSession:
    async with asked_bus(nats) as bus:
        return await read_session(home, session, bus=bus, verify=True, to_end=to_end)


async def _search(
    traced: Traced,
    pool: str,
    options: SearchOptions,
    home: Path,
    nats: str,
    on_notice: Callable[[str], None] | None,
    interrupts: Interrupts,
    *,
    origin: Origin | None = None,
    began: float | None = None,
) -> Optimized:
    """``began``: when the search's minutes did, on the monotonic clock; by default now."""
    outcome: Optimized | None = None
    session = ""
    try:
        with progress(on_notice) as say, errors_of(traced):
            async with searching(
                *(traced.problem, pool, options),
                home=home,
                nats=nats,
                origin=origin,
                on_notice=say,
                began=began,
            ) as running:
                session = running.session
                for note in running.notes:
                    say(note)
                with interrupts.closing(running, say):
                    try:
                        async for _, event in running.events():
                            if text := step_text(event, running.graph):
                                say(text)
                    except asyncio.CancelledError:
                        if not await running.is_closed_after_all():
                            raise
                result = running.result()
                text = await asyncio.to_thread(finished_file, running.graph, result.best) if result.best else ""
                outcome = Optimized(result, traced, text)
    except asyncio.CancelledError:
        if outcome is None:
            stays = f"session {session} stays open: kernelswarm resume {session} goes on with it"
            raise asyncio.CancelledError(*[stays][: bool(session)]) from None
        # Ctrl-C while other processes use this one's bus: what was searched is there.
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
    return outcome


@contextmanager
def errors_of(traced: Traced) -> Iterator[None]:
    """Errors name what the caller wrote, not the file that was generated from it."""
    try:
        yield
    except ProblemError as error:
        if traced.operator is None or not error.args:
            raise
        generated = re.compile(rf"^{re.escape(traced.problem.name)}(\.py)?\b")
        name = described(traced.operator)
        error.args = (generated.sub(lambda _: name, str(error.args[0])), *error.args[1:])
        raise


def problem_of(
    operator: Callable[..., Any] | str | Path,
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    weights: Sequence[float] = (),
    dynamic_shapes: DynamicShapes | None = None,
) -> Traced:
    if isinstance(operator, str | Path):
        if inputs is not None or dynamic_shapes:
            raise InputError("a problem file draws its own inputs: leave `inputs` and `dynamic_shapes` out")
        return Traced(load_problem(Path(operator)))
    if not callable(operator):
        raise InputError(f"the operator is a {type(operator).__name__}: give a function, a module, or a problem file")
    if isinstance(operator, type):
        raise InputError(f"{operator.__name__} is a class: give a module that was made of it, or a function")
    if inputs is None:
        raise InputError("give `inputs`: the arguments with which the operator is to be fast, for example [x, weight]")
    if not isinstance(inputs, Sequence | Mapping):
        raise InputError(f"`inputs` is a {type(inputs).__name__}: put the arguments into a list, for example [x]")
    several = isinstance(inputs, Sequence) and all(isinstance(call, list | tuple | Mapping) for call in inputs)
    calls = list(inputs) if several else []
    if weights and not calls:
        raise InputError("`weights` are of several calls: give `inputs` as a list of their arguments, [[x], [y]]")
    with random_state_kept():
        _give_sizes(operator, calls[0] if calls else inputs)
        return trace_calls(operator, calls or [inputs], weights, dynamic_shapes)


def _give_sizes(operator: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any]) -> None:
    """Have lazy layers of a module take their sizes from ``inputs``, as its first call would."""
    import torch

    from ..hardware.dropin.constructor import by_position, call_once

    if not isinstance(operator, torch.nn.Module):
        return
    try:
        call_once(operator, lambda: by_position(operator.forward, inputs))
    except Exception as error:  # whatever the user's module raises becomes one sentence
        name = type(operator).__name__
        raise InputError(f"{name} has lazy layers, and its first call fails: {reason_of(error, operator)}") from error


__all__ = ["Step", "export", "fork", "import_log", "lineage", "optimize"]
