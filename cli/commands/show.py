"""``kernelswarm show``: one session with its graph, or one node with everything that is known of it."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.syntax import Syntax

from ... import store
from ...bus import asked_bus
from ...graph.session_graph import SearchGraph
from ...schemas import InputError
from ...sessions.conversation import Turn, conversation_of
from ...sessions.finished_file import finished_file
from ...sessions.home import kernelswarm_home
from ...store import SessionReport, UnknownSession, log_path
from ..display.show_conversation import print_conversation
from ..display.show_node import print_node
from ..display.show_session import print_session
from ..display.terminal import out, print_json, write
from ..nearest import nearest
from ..options import Json, Nats, SessionId
from ..reading import asked_log, nothing_in, recorded_session, unknown_session

if TYPE_CHECKING:
    from ...bus import Bus
    from ...store import NodeReport

EXAMPLES = (
    "kernelswarm show mapid-7kq2m",
    "kernelswarm show mapid-7kq2m --node n012",
    "kernelswarm show mapid-7kq2m --node n012 --conversation   # what its author was asked, tried and answered",
    "kernelswarm show mapid-7kq2m --node n012 --assembly       # its machine code, innermost loops first",
    "kernelswarm show mapid-7kq2m --file > best.py      # what its best node came to, ready to use",
    "kernelswarm show mapid-7kq2m --source > mine.py    # the candidate alone, as it was judged",
    "kernelswarm show mapid-7kq2m --json | jq '.nodes[] | [.node, .speedup]'",
)


def show(
    session: SessionId,
    node: Annotated[str, typer.Option("--node", "-n", help="One node of it.", show_default=False)] = "",
    source: Annotated[bool, typer.Option("--source", help="Just the candidate, exactly as it was judged.")] = False,
    file: Annotated[
        bool, typer.Option("--file", help="Just the finished file: best.py, made again from the log.")
    ] = False,
    conversation: Annotated[
        bool,
        typer.Option("--conversation", help="With --node: what its author was asked, looked up, tried and answered."),
    ] = False,
    assembly: Annotated[
        bool, typer.Option("--assembly", help="Just the candidate's machine code, innermost loops first.")
    ] = False,
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Show a session: problem, baselines, graph, best. With --node: plan, candidate, timings, diagnoses."""
    if source + file + assembly + json > 1:
        raise InputError("--source, --file and --assembly print a text, --json an object: choose one")
    if conversation and (source or file or assembly or not node):
        raise InputError("--conversation is of one node: name it with --node, without --source, --file, --assembly")
    home = kernelswarm_home()
    if not nats and not log_path(home).exists():
        raise InputError(f"there is no session {session!r}: {nothing_in(home)}")
    if file:
        _print_file(asyncio.run(_finished(home, nats, session, node)))
        return 0
    if assembly:
        write(asyncio.run(_assembly(home, nats, session, node)) + "\n")
        return 0
    if conversation:
        turns = asyncio.run(_conversation(home, nats, session, node))
        print_json(turns) if json else print_conversation(turns)
        return 0
    report = asyncio.run(_read(home, nats, session, node, source))
    if json:
        print_json(report)
    elif isinstance(report, SessionReport):
        print_session(report)
    elif source:
        _print_source(report)
    else:
        print_node(report)
    return 0


async def _read(home: Path, nats: str, session: str, node: str, source: bool) -> "SessionReport | NodeReport":
    async with asked_log(home, nats) as bus:
        return await _report(home, bus, session, node, source)


async def _report(
    home: Path, bus: "Bus | None", session: str, node: str, source: bool = False
) -> "SessionReport | NodeReport":
    try:
        await store.check_session(home, session, bus=bus)
        report = await store.show(home, session, bus=bus)
    except UnknownSession as error:
        raise await unknown_session(home, session, bus) from error
    if source and not node and not (node := report.session.best or ""):
        raise InputError(f"session {session} has no correct candidate yet: name a node with --node")
    if not node:
        return report
    if node not in (names := [row.node for row in report.nodes]):
        hint = _hint(node, names)
        raise InputError(f"session {session} has no node {node!r}{hint}")
    return await store.node(home, session, node, bus=bus)


async def _conversation(home: Path, nats: str, session: str, node: str) -> tuple[Turn, ...]:
    async with asked_log(home, nats) as bus:
        await _report(home, bus, session, node)
        recorded = await recorded_session(home, session, bus, to_end=False)
    turns = conversation_of((envelope for _, envelope in recorded.events), node)
    if not turns:
        raise InputError(f"node {node} of session {session} has no conversation: no model was asked for it")
    return turns


async def _assembly(home: Path, nats: str, session: str, node: str) -> str:
    from ...agents.assembly import assembly_of  # all languages, for this option alone

    async with asked_bus(nats) as bus:
        recorded = await recorded_session(home, session, bus, to_end=False)
        graph = await asyncio.to_thread(recorded.graph)
        return await assembly_of(graph, node or _best(graph), home, bus)


async def _finished(home: Path, nats: str, session: str, node: str) -> str:
    async with asked_log(home, nats) as bus:
        recorded = await recorded_session(home, session, bus, to_end=False)
        graph = await asyncio.to_thread(recorded.graph)
    return await asyncio.to_thread(finished_file, graph, node or _best(graph))


def _best(graph: SearchGraph) -> str:
    if graph.closed is None:
        raise InputError(f"session {graph.session} is still open: name a node with --node")
    if not graph.closed.best:
        raise InputError(f"session {graph.session} found no correct candidate")
    return graph.closed.best


def _hint(node: str, names: list[str]) -> str:
    if not names:
        return "; it has none yet"
    # Well-formed, it is out of range: any likeness to another number means nothing.
    ranged = f"; there is {names[0]} to {names[-1]}"
    return ranged if len(node) == len(names[0]) else nearest(node, names) or ranged


def _print_source(report: "NodeReport") -> None:
    node = report.node
    if not report.source:
        raise InputError(f"node {node.node} of session {node.session} has no candidate: {node.state}")
    _print_file(report.source)


def _print_file(text: str) -> None:
    if sys.stdout.isatty():
        out.print(Syntax(text, "python", background_color="default", word_wrap=True))
    else:
        write(text if text.endswith("\n") else text + "\n")
