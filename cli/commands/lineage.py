"""``kernelswarm lineage``: how a kernel came about, from its root through forks and seeds."""

import asyncio
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.markup import escape

from ...sessions.home import kernelswarm_home
from ...sessions.lineage import Step
from ...sessions.lineage import lineage as read_lineage
from ..display.summary import NAMES
from ..display.terminal import out, print_value
from ..options import Json, Nats, SessionId
from ..reading import asked_log, recorded_session

EXAMPLES = (
    "kernelswarm lineage mapid-7kq2m n012",
    "kernelswarm lineage mapid-7kq2m n012 --json | jq '.[] | [.session, .node, .operation, .speedup.median]'",
)


def lineage(
    session: SessionId,
    node: Annotated[str, typer.Argument(help="Node of it; `kernelswarm show SESSION` lists them.")],
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Show the way to a node: each step's operation, what changed, what was measured, and why."""
    home = kernelswarm_home()

    async def find() -> list[Step]:
        async with asked_log(home, nats) as bus:
            return await read_lineage(session, node, lambda name: recorded_session(home, name, bus, to_end=False))

    steps = asyncio.run(find())
    print_value(steps, lambda _: out.print("\n".join(_lines(steps))), json=json)
    return 0


def _lines(steps: list[Step]) -> Iterator[str]:
    session = device = ""
    for number, step in enumerate(steps):
        if step.session != session:
            how = f"{step.through} of the above in " if step.through else ""
            on_device = f" on {step.device}" if step.device and step.device != device else ""
            yield ("\n" if number else "") + f"[dim]{how}session[/] {escape(step.session)}[dim]{escape(on_device)}[/]"
            session, device = step.session, step.device or device
        yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    second = f" with {step.second}" if step.second else ""
    yield f"[bold]{escape(step.node)}[/] {step.operation}{escape(second)}  {_measured(step)}"
    if step.changed:
        yield f"     changed   {escape(', '.join(step.changed))}"
    if step.rationale:
        yield f"     why       {escape(' '.join(step.rationale.split()))}"
    if step.diagnosis:
        yield f"     diagnosis {escape(step.diagnosis)}"


def _measured(step: Step) -> str:
    if step.verdict is None:
        return "[dim]not diagnosed[/]"
    if step.speedup is None:
        return f"[red]{escape(step.verdict.replace('_', ' '))}[/]"
    style = "green" if step.speedup.is_win else "yellow"
    against = NAMES.get(step.against, step.against)
    sure = ", confirmed" if step.confirmed else f", {step.doubts}" if step.doubts else ""
    return f"[{style}]{step.speedup.in_words}[/] [dim]against {escape(against)}{sure}[/]"
