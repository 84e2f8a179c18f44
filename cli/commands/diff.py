"""``kernelswarm diff``: two sessions side by side."""

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from ...sessions.diff import Decided, FirstDivergence, SessionDiff, Side, compare
from ...sessions.home import kernelswarm_home
from ..completion import session_ids
from ..display.summary import NAMES, count
from ..display.terminal import out, plain_table, print_value, print_wide
from ..options import Json, Nats
from ..reading import asked_log, recorded_session

EXAMPLES = (
    "kernelswarm diff mapid-7kq2m mapid-x3vnd",
    "kernelswarm diff mapid-7kq2m mapid-x3vnd --json | jq .divergence",
)


def _counted(side: Side) -> str:
    return f"{side.candidates} {'judged' if side.status == 'closed' else 'made'}"


_TO_BETTER = "to 95 % of the better"
_ROWS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("device", lambda side: side.device),
    ("ended", lambda side: side.reason or side.status),
    ("candidates", lambda side: f"{_counted(side)}, {side.correct} correct, {count(side.wins, 'win')}"),
    ("best kernel", lambda side: side.best or "none"),
    ("speedup", lambda side: side.speedup.cells[0] if side.speedup else ""),
    ("95 % interval", lambda side: side.speedup.cells[1] if side.speedup else ""),
    ("against", lambda side: NAMES.get(side.against, side.against)),
    ("to 95 % of its best", lambda side: _candidates(side.candidates_to_best)),
    (_TO_BETTER, lambda side: _candidates(side.candidates_to_better)),
    ("time", lambda side: f"{side.seconds:.0f} s"),
)

Session = Annotated[str, typer.Argument(help="Session; `kernelswarm sessions` lists them.", autocompletion=session_ids)]


def diff(session_a: Session, session_b: Session, nats: Nats = "", json: Json = False) -> int:
    """Compare two sessions: what was asked, the first decision in which they part, what each found and how soon."""
    home = kernelswarm_home()

    async def read() -> SessionDiff:
        async with asked_log(home, nats) as bus:
            a, b = [await recorded_session(home, session, bus, to_end=False) for session in (session_a, session_b)]
            return await asyncio.to_thread(compare, a, b)

    comparison = asyncio.run(read())
    print_value(comparison, _print, json=json)
    return 0


def _print(comparison: SessionDiff) -> None:
    table = plain_table("")
    for side in (comparison.a, comparison.b):
        table.add_column(escape(side.session), no_wrap=True)
    for name, (value_a, value_b) in comparison.asked.items():
        table.add_row(name, _text(value_a), _text(value_b), style="yellow")
    for name, shown in _ROWS:
        if name not in comparison.asked and (comparison.comparable or name != _TO_BETTER):
            table.add_row(name, escape(shown(comparison.a)), escape(shown(comparison.b)))
    print_wide(table)
    out.print(
        _divergence(comparison.divergence) if comparison.divergence else "every decision does the same", markup=False
    )
    out.print(_better(comparison), markup=False)


def _divergence(divergence: FirstDivergence) -> str:
    field = f" ({divergence.field})" if divergence.field else ""
    return f"decisions part at number {divergence.number}{field}: {_decided(divergence.a)}  |  {_decided(divergence.b)}"


def _decided(decision: Decided | None) -> str:
    if decision is None:
        return "nothing"
    tag, event = decision.event["tag"], decision.event
    if tag.startswith("session.closed"):
        return f"closed ({event['reason']})"
    if tag.startswith("node.confirmation"):
        return f"confirm {decision.node}"
    parent = f" of {event['parent']}" if event["parent"] else ""
    advice = f", {event['advice'][0]['action'].replace('_', ' ')} first" if event["advice"] else ""
    return f"{decision.node} {event['intent']}{parent}{advice}"


def _better(comparison: SessionDiff) -> str:
    if comparison.a.speedup is None or comparison.b.speedup is None:
        return "there is no speedup on both sides to compare"
    if not comparison.comparable:
        return "their speedups cannot be compared: another problem, hardware or baselines"
    if comparison.better:
        return f"{comparison.better} found the faster kernel: the intervals do not overlap"
    same = comparison.a.source and comparison.a.source == comparison.b.source
    return "the best kernels are one and the same file" if same else "neither best kernel is surely the faster one"


def _candidates(number: int | None) -> str:
    return "never" if number is None else count(number, "candidate")


def _text(value: object) -> str:
    if value in (None, "", [], {}):
        return "-"
    return escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))
