"""``kernelswarm log``: the log itself. Where it is, whether it is what was written, copies of it, and its end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.markup import escape

from ... import store
from ...bus import asked_bus
from ...schemas import EVENTS, InputError, StoreError
from ...sessions.home import kernelswarm_home
from ...store import log_path
from ..completion import session_ids
from ..connecting import connecting
from ..display.terminal import err, out, print_json, print_value
from ..groups import add_commands, group
from ..options import Json, Nats
from ..reading import asked_log, damage_of, nothing_in, warn_of
from .log_tail import follow

if TYPE_CHECKING:
    from ...bus import Bus

T = TypeVar("T")

EXIT_NO = 1

app = group("log", "The log: where it is, whether it is what was written, copies of it, its latest events.")

Sessions = Annotated[list[str] | None, typer.Option("--session", "-s", help="Only this session; may be repeated.")]


def path(json: Json = False) -> int:
    """Print where the log lies. It need not be there yet."""
    log_file = log_path(kernelswarm_home())
    status = {"path": str(log_file), "exists": log_file.exists()}
    print_value(status, lambda _: out.print(str(log_file), markup=False), json=json)
    return 0


def verify(nats: Nats = "", json: Json = False) -> int:
    """Recompute the chain of hashes from the first event, also while a search records. Exit status 1 names the first
    bad event."""
    home = _home_with_log(nats)
    verification = asyncio.run(_with_bus(nats, lambda bus: store.verify_log(home, bus=bus)))
    if json:
        print_json(verification)
    elif verification.ok:
        out.print(f"{verification.events} events, all as they were written; head {verification.head}", markup=False)
    else:
        who = f" ({verification.bad_id})" if verification.bad_id else ""
        place = "beside its events" if verification.bad_seq is None else f"from event {verification.bad_seq}"
        before = "" if verification.bad_seq is None else " before it"
        err.print(f"[bold red]damaged[/] {place}{escape(who)}: {escape(verification.reason)}")
        err.print(
            f"the {verification.events} events{before} are as they were written; head {verification.head}", markup=False
        )
    return 0 if verification.ok else EXIT_NO


def backup(
    file: Annotated[Path, typer.Argument(help="File that the copy becomes; it must not be there yet.")],
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Copy the log event by event, checking it, also while a search records. The copy is whole or not there."""
    home = _home_with_log(nats)
    copied = asyncio.run(_with_bus(nats, lambda bus: store.backup_log(home, file, bus=bus)))
    sentence = f"{copied.events} events in {copied.path}; head {copied.head}"
    print_value(copied, lambda _: out.print(sentence, markup=False), json=json)
    return 0


def import_(
    source: Annotated[Path, typer.Argument(help="A log file, or a folder that `export --format events` wrote.")],
    session: Sessions = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Not this session; may be repeated.", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """Take another machine's events into this log: all of them, or after an error none.

    The source's chain is verified first; what is here already is dropped; sessions keep their names.
    """
    done = store.import_log(kernelswarm_home(), source, sessions=session or (), without=without or ())
    sentence = f"{done.events} events of {len(done.sessions)} sessions are new, {done.known} were here already"
    print_value(done, lambda _: out.print(sentence, markup=False), json=json)
    return 0


def stats(nats: Nats = "", json: Json = False) -> int:
    """Count what the log holds: events, sessions, size, events a second, by kind and by day."""
    home = _home_with_log(nats)
    figures, damage = asyncio.run(_figures(home, nats))
    if json:
        print_json(figures)
        warn_of(damage)
        return 0
    size = f", {figures.bytes / 1e6:.1f} MB" if figures.bytes is not None else ""
    out.print(f"{figures.events} events of {figures.sessions} sessions{size}", markup=False)
    out.print(
        f"{figures.active_per_second:.1f} events a second while there were any, {figures.busiest_per_second} at most",
        markup=False,
    )
    for counts in (figures.kinds, figures.days):
        out.print()
        for name, count in counts.items():
            out.print(f"{count:>9}  {name}", markup=False)
    warn_of(damage)
    return 0


async def _figures(home: Path, nats: str) -> "tuple[store.LogStats, StoreError | None]":
    async with asked_log(home, nats) as bus:
        return await store.log_stats(home, bus=bus), await damage_of(home, nats)


def tail(
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Go on as events come; Ctrl-C ends it.")] = False,
    session: Annotated[
        str, typer.Option("--session", "-s", help="Only this session.", autocompletion=session_ids, show_default=False)
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", "-k", help="Only tags with this in them: candidate, diagnosed.", show_default=False)
    ] = "",
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="How many of the past.")] = 10,
    nats: Nats = "",
    json: Annotated[bool, typer.Option("--json", help="One envelope a line.")] = False,
) -> int:
    """Show the latest events, and with -f those to come, from this machine's log or a cluster's recorder."""
    if kind and not any(kind in tag for tag in EVENTS):
        kinds = ", ".join(sorted({tag.rpartition(".v")[0] for tag in EVENTS}))
        raise InputError(f"--kind {kind!r} is in no tag of an event; there are {kinds}")
    home = kernelswarm_home()
    if not follow_ and not nats and not log_path(home).exists():
        raise InputError(f"there is no log: {nothing_in(home)}")
    follow(home, nats, session=session, kind=kind, last=last, is_live=follow_, as_json=json)
    if not follow_:
        warn_of(asyncio.run(damage_of(home, nats)))
    return 0


EXAMPLES: dict[str, tuple[str, ...]] = {
    "path": ("kernelswarm log path", 'ls -l "$(kernelswarm log path)"'),
    "verify": ("kernelswarm log verify", "kernelswarm log verify --json | jq .head"),
    "backup": ("kernelswarm log backup monday.duckdb",),
    "import": (
        "kernelswarm log import other-machine.duckdb",
        "kernelswarm log import events/ --session mapid-7kq2m",
        "kernelswarm log import other-machine.duckdb --without rmsnorm-x3vnd",
    ),
    "stats": ("kernelswarm log stats", "kernelswarm log stats --json | jq .kinds"),
    "tail": (
        "kernelswarm log tail -f",
        "kernelswarm log tail -f --session mapid-7kq2m --kind diagnosed",
        "kernelswarm log tail -f --nats nats://10.0.0.1:4222 --json | jq .body.tag",
    ),
}

add_commands(app, map(connecting, (path, verify, backup, import_, stats, tail)), EXAMPLES)


def _home_with_log(nats: str) -> Path:
    home = kernelswarm_home()
    if not nats and not log_path(home).exists():
        raise InputError(f"there is no log: {nothing_in(home)}")
    return home


async def _with_bus(nats: str, work: Callable[["Bus | None"], Awaitable[T]]) -> T:
    async with asked_bus(nats) as bus:
        return await work(bus)
