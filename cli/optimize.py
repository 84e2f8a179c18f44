"""``kernelswarm optimize``: search for a faster kernel."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..agents.home import kernelswarm_home
from ..agents.registry import ALL_ROLES
from ..agents.search import Search, searching
from ..agents.session import SearchOptions, SearchResult
from ..hardware.problem_files import load_problem
from ..schemas import InputError, encode
from .live import Display, open_display
from .options import Json, Nats, Pool
from .report import write_result
from .summary import print_summary
from .terminal import out

EXAMPLES = (
    "kernelswarm optimize problems/mapid.py --pool cpu --budget 40",
    "kernelswarm optimize model.py --minutes 5 --target 2.0 --out faster/",
    "kernelswarm optimize model.py --synthesizer anthropic --model MODEL --budget 20",
    "kernelswarm optimize model.py --json | jq .speedup",
)


def optimize(
    problem: Annotated[Path, typer.Argument(help="Problem file: a KernelBench file or a function file.")],
    pool: Pool = "cpu",
    budget: Annotated[int, typer.Option(help="Candidates to spend.")] = 40,
    minutes: Annotated[float | None, typer.Option(help="Stop planning after so many minutes.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop at this speedup over the best baseline.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the planner's random choices.")] = 0,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for best.py and result.json.", show_default=False)
    ] = None,
    synthesizer: Annotated[str, typer.Option(help="Who writes candidates: playbook or anthropic.")] = "playbook",
    model: Annotated[str, typer.Option(help="Model of a language-model synthesizer.", show_default=False)] = "",
    policy: Annotated[str, typer.Option(help="How the search graph grows.")] = "greedy",
    nats: Nats = "",
    workers: Annotated[bool, typer.Option(help="Run workers here; --no-workers leaves the work to a swarm.")] = True,
    json: Json = False,
) -> int:
    """Search for a faster kernel for a PyTorch operator, and write it down as a drop-in file."""
    options = SearchOptions(
        budget=budget,
        minutes=minutes,
        target=target,
        seed=seed,
        synthesizer=synthesizer,
        model=model,
        policy=policy,
    )
    options.check()
    if not workers and not nats:
        raise InputError("--no-workers needs --nats URL: without a cluster nobody else could do the work")
    home = kernelswarm_home()
    loaded = load_problem(problem)

    async def run() -> SearchResult:
        with open_display(quiet=json) as display:
            roles = ALL_ROLES if workers else {}
            async with searching(
                loaded, pool, options, home=home, nats=nats, roles=roles, on_notice=display.notice
            ) as search:
                await _follow(search, display)
                return write_result(search.result(), out_dir or home / "sessions" / search.session)

    result = asyncio.run(run())
    if json:
        out.print(encode(result).decode(), markup=False, soft_wrap=True)
    else:
        print_summary(result)
    return 130 if result.reason == "interrupted" else 0


async def _follow(search: Search, display: Display) -> None:
    display.opened(search)
    with _on_interrupt(search, display):
        async for envelope, event in search.events():
            display.show(envelope, event)


@contextmanager
def _on_interrupt(search: Search, display: Display) -> Iterator[None]:
    """The first Ctrl-C closes the session, the second gives up waiting for that."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked: list[float] = []
    pending: set[asyncio.Task[None]] = set()

    def interrupted() -> None:
        if asked and task is not None:
            task.cancel()
            return
        asked.append(time.monotonic())
        display.notice("closing the session (Ctrl-C again to leave at once)")
        pending.add(asyncio.ensure_future(search.stop("interrupted")))

    handled = (signal.SIGINT, signal.SIGTERM)
    for number in handled:
        loop.add_signal_handler(number, interrupted)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
