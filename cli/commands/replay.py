"""``kernelswarm replay``: live a session through again."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...bus import asked_bus
from ...schemas import InputError, ReplayDivergence
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.re_evaluation import ReEvaluation, re_evaluate_on
from ...sessions.replay import Replay, ReplayReport
from ...sessions.replay_authors import replay_authors, with_authors
from ..completion import pool_names
from ..display.playback import play
from ..display.replay_text import print_divergence, print_re_evaluation, print_replay, say_judged
from ..display.terminal import err, print_json
from ..options import Json, Nats, SessionId
from ..reading import event_of, recorded_session

EXAMPLES = (
    "kernelswarm replay mapid-7kq2m                        # are the decisions the recorded ones?",
    "kernelswarm replay mapid-7kq2m --speed 10x            # watch it as it happened",
    "kernelswarm replay mapid-7kq2m --to 1f4c              # up to an event, and what comes next",
    "kernelswarm replay mapid-7kq2m --effects live --pool cpu    # does the win carry over?",
)

EXIT_DIVERGED = 1


def replay(
    session: SessionId,
    to: Annotated[
        str,
        typer.Option("--to", help="Stop at this event: its id, the beginning of it, or its seq.", show_default=False),
    ] = "",
    speed: Annotated[
        str,
        typer.Option(
            help="Show it at this multiple of recorded time, as in 10x; without it as fast as possible.",
            show_default=False,
        ),
    ] = "",
    effects: Annotated[
        Literal["recorded", "live"],
        typer.Option(help="recorded needs no device; live evaluates the correct candidates again, on a pool."),
    ] = "recorded",
    pool: Annotated[
        str,
        typer.Option(
            "--pool",
            "-p",
            help="Pool for --effects live; by default the session's.",
            autocompletion=pool_names,
            show_default=False,
        ),
    ] = "",
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Feed a recorded session to fresh agents: every decision must be the recorded one. Needs no device, no network."""
    if effects == "live" and speed:
        raise InputError("--speed plays what was recorded; --effects live takes as long as it takes: choose one")
    if effects == "recorded" and pool:
        raise InputError(f"--pool {pool} needs --effects live: recorded effects run on no pool")
    factor = _factor(speed)
    home = kernelswarm_home()

    async def run(interrupts: Interrupts) -> ReplayReport | ReEvaluation:
        async with asked_bus(nats) as bus:
            past = await recorded_session(home, session, bus)
            stop = await event_of(past, to, home, bus) if to else ""
        replaying = Replay(session, past.before)
        report = await play(replaying, past, stop, factor, quiet=json)
        report = with_authors(report, await replay_authors(past, stop))
        return report if effects == "recorded" else await _live(replaying, pool, home, quiet=json)

    try:
        result = run_interruptible(run)
    except ReplayDivergence as error:
        print_divergence(error, json=json)
        return EXIT_DIVERGED
    if json:
        print_json(result)
    elif isinstance(result, ReplayReport):
        print_replay(result)
    else:
        print_re_evaluation(result)
    return 0


async def _live(replaying: Replay, pool_name: str, home: Path, *, quiet: bool) -> ReEvaluation:
    if quiet:
        return await re_evaluate_on(replaying.graph, pool_name, home)
    return await re_evaluate_on(
        replaying.graph, pool_name, home, on_notice=lambda text: err.print(text, markup=False), on_judged=say_judged
    )


def _factor(speed: str) -> float | None:
    """``10x``, ``10``, ``0.5x`` to a number; None for no word about it."""
    if not speed:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?x?", speed) or float(speed.removesuffix("x")) == 0:
        raise InputError(f"speed {speed!r} is no multiple of recorded time: write it as 10x or 0.5x")
    return float(speed.removesuffix("x"))
