"""What optimize and fork share: a search is opened, shown, followed to its end, and written down."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from ..agents.planner.synthesis import NOTHING_TO_TRY
from ..agents.registry import ALL_ROLES
from ..schemas import REFERENCE_DIED, InputError, Origin, Problem
from ..sessions.interrupts import EXIT_INTERRUPTED, Interrupts, run_interruptible
from ..sessions.results import SearchResult
from ..sessions.search import searching
from ..sessions.search_options import SearchOptions
from .display.live import open_display
from .display.summary import print_summary
from .display.terminal import is_one_stream, print_value
from .following import follow
from .report import keep_folder, make_folder, write_result

EXIT_NO = 1
EXIT_NOTHING_TO_TRY = 3
"""Exit status of a search for which not one candidate could be made."""


@dataclass(frozen=True)
class SearchConfiguration:
    """A search as the command line configures it."""

    problem: Problem
    pool: str
    options: SearchOptions
    home: Path
    nats: str
    workers: bool
    """Whether the work is done in this process."""
    out_dir: Path | None
    json: bool
    origin: Origin | None = None
    """Of a fork."""


def check(options: SearchOptions, *, nats: str, workers: bool) -> None:
    """Refuse what cannot be run, before anything is opened.

    Raises:
        InputError: an option cannot be used.
    """
    options.check()
    if not workers and not nats:
        raise InputError("--no-workers needs --nats URL: without a cluster nobody else could do the work")


def search(configuration: SearchConfiguration) -> int:
    """Search, print what came of it, and return the exit status.

    Raises:
        InputError: the folder cannot be written.
    """
    if configuration.out_dir is not None:
        make_folder(configuration.out_dir)
    roles: Mapping[str, int] = ALL_ROLES if configuration.workers else {}

    async def run(interrupts: Interrupts) -> SearchResult:
        async with AsyncExitStack() as stack:
            with open_display(quiet=configuration.json) as display:
                running_search = await stack.enter_async_context(
                    searching(
                        configuration.problem,
                        configuration.pool,
                        configuration.options,
                        home=configuration.home,
                        nats=configuration.nats,
                        roles=roles,
                        origin=configuration.origin,
                        on_notice=display.notice,
                    )
                )
                if configuration.out_dir is not None:
                    keep_folder(configuration.home, running_search.session, configuration.out_dir)
                for note in running_search.notes:
                    display.say(note)
                await follow(running_search, display, interrupts)
                folder = configuration.out_dir or configuration.home / "sessions" / running_search.session
                result = await asyncio.to_thread(write_result, running_search, folder)
            print_result(result, json=configuration.json, failures=display.failures if is_one_stream() else ())
            return result

    return exit_status(run_interruptible(run))


def print_result(result: SearchResult, *, json: bool, failures: Collection[str] = ()) -> None:
    """Before the bus is left: another process on this machine that uses it may take minutes more.

    Args:
        result: of the search.
        json: as a program reads it.
        failures: of syntheses, that stand above.
    """
    print_value(result, lambda _: print_summary(result, failures), json=json)


def exit_status(result: SearchResult) -> int:
    """Of a command that searched: that there is no win is a result, that nothing could be tried or judged is none."""
    statuses = {"interrupted": EXIT_INTERRUPTED, NOTHING_TO_TRY: EXIT_NOTHING_TO_TRY, REFERENCE_DIED: EXIT_NO}
    return statuses.get(result.reason, 0)
