"""``kernelswarm models``: which models can be asked here, what they cost, and what they have won."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs
from rich.markup import escape
from rich.table import Table

from ...agents.synthesizer.authors import model_authors
from ...agents.synthesizer.model.prices import Price, PriceTable, price_table
from ...bus import asked_bus
from ...schemas import Schema, StoreError
from ...sessions.home import kernelswarm_home
from ...store import log_path, run_sql
from ...store.question_library import question
from ..display.terminal import err, out, print_value, print_wide
from ..options import Json, Nats
from ..search_parameters import BaseUrl

EXAMPLES = (
    "kernelswarm models",
    "kernelswarm models --base-url http://localhost:8000/v1    # what a server of your own has",
    "kernelswarm models --offline                              # keys, addresses and prices; nobody is asked",
    "kernelswarm models --json | jq '.authors[] | select(.is_reachable)'",
)
SHOWN = 12
"""Names of a server's models that a person is shown."""


class Won(Schema, frozen=True, kw_only=True):
    """What this log says of an author and its model."""

    author: str
    model: str
    nodes: int
    correct: int
    wins: int
    best_speedup: float | None
    cost: float | None
    """US dollars; null if no price was known."""
    cost_per_win: float | None
    tokens: int
    cache_hit_rate: float | None


class RoleCost(Schema, frozen=True, kw_only=True):
    """What this log says of a role and its model; authors are roles here, too."""

    role: str
    model: str
    sessions: int
    calls: int
    failed_calls: int
    tokens: int
    cost: float | None
    """US dollars; null if no price was known."""
    decisions: int
    """How often a role of the ring asked."""
    by_model: int
    """Of these, how often the model's answer was used; else the rules decided."""
    session_wins: int
    median_ms: float | None = None
    """Time until the answer, milliseconds, in the median."""
    cache_hit_rate: float | None = None
    """Share of the requests' tokens that a cache gave."""


class AuthorStatus(Schema, frozen=True, kw_only=True):
    """An author that asks a model."""

    author: str
    model: str
    """Asked where the session names none."""
    url: str
    problem: str
    is_reachable: bool | None
    """Null if it was not asked."""
    milliseconds: float | None
    models: tuple[str, ...]
    """What its server has."""
    price: Price | None
    """Of ``model``."""


class ModelsReport(Schema, frozen=True, kw_only=True):
    """All of it."""

    authors: tuple[AuthorStatus, ...]
    prices: dict[str, Price]
    """By the beginnings of models' names, US dollars for a million tokens."""
    won: tuple[Won, ...]
    roles: tuple[RoleCost, ...]


def models(
    base_url: BaseUrl = "",
    offline: Annotated[bool, typer.Option("--offline", help="Ask no server.")] = False,
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Show which models can be asked here: keys, servers, prices, and what this log says each has won.

    Servers are asked for the names of their models, which costs nothing.
    """
    home = kernelswarm_home()
    report = asyncio.run(_report(home, nats, base_url, offline=offline))
    print_value(report, _print, json=json)
    return 0


async def _report(home: Path, nats: str, base_url: str, *, offline: bool) -> ModelsReport:
    table = price_table(home)
    won, roles = await from_log(home, nats)
    statuses = await model_authors(base_url, ask=not offline)
    return ModelsReport(
        authors=tuple(AuthorStatus(**structs.asdict(status), price=table.find(status.model)) for status in statuses),
        prices=table.prices,
        won=won,
        roles=roles,
    )


async def from_log(home: Path, nats: str) -> tuple[tuple[Won, ...], tuple[RoleCost, ...]]:
    """What the log of ``home`` (or at ``nats``) says of authors, and of roles; nothing where there is none."""
    if not nats and not log_path(home).exists():
        return (), ()
    async with asked_bus(nats) as bus:
        try:
            authors = (await run_sql(home, question("authors_compared").sql, bus=bus)).records()
            roles = (await run_sql(home, question("cost_by_role").sql, bus=bus)).records()
        except StoreError as error:
            err.print(f"the log cannot be asked: {error}", markup=False)
            return (), ()
    won = tuple(Won(**{name: row[name] for name in Won.__struct_fields__}) for row in authors)
    return won, tuple(RoleCost(**{name: row[name] for name in RoleCost.__struct_fields__}) for row in roles)


def _print(report: ModelsReport) -> None:
    for status in report.authors:
        for line in _lines(status):
            out.print(line)
    print_wide(_prices(PriceTable(prices=report.prices)))
    if report.won:
        print_wide(_wins(report.won))
    if report.roles:
        print_wide(_roles(report.roles))


def _lines(status: AuthorStatus) -> Iterator[str]:
    if status.problem:
        yield f"[bold]{status.author}[/]  [yellow]{escape(status.problem)}[/]"
        return
    reached = "not asked" if status.is_reachable is None else f"answers in {status.milliseconds:.0f} ms"
    yield f"[bold]{status.author}[/]  {escape(status.url)}: {reached}; without --model {escape(status.model)}"
    if status.models:
        more = len(status.models) - SHOWN
        yield f"  has {escape(', '.join(status.models[:SHOWN]))}{f' and {more} more' if more > 0 else ''}"


def _table(title: str, *columns: str) -> Table:
    """A table with these columns: names on the left, numbers on the right."""
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, justify="left" if column in ("author", "role", "model", "looked up") else "right")
    return shown


def _prices(table: PriceTable) -> Table:
    columns = ("model", "input", "output", "cache read", "cache write", "context", "looked up")
    shown = _table("US dollars for a million tokens", *columns)
    for name, price in table.prices.items():
        numbers = [f"{value:g}" for value in (price.input, price.output, price.read, price.write)]
        shown.add_row(escape(name), *numbers, f"{price.context:,}" if price.context else "", price.date)
    return shown


def _wins(won: tuple[Won, ...]) -> Table:
    columns = ("author", "model", "nodes", "correct", "wins", "best", "cost", "a win", "cached")
    shown = _table("what this log says", *columns)
    for row in won:
        shown.add_row(
            *(row.author, escape(row.model), str(row.nodes), str(row.correct), str(row.wins)),
            f"{row.best_speedup:.2f}x" if row.best_speedup is not None else "",
            f"${row.cost:.2f}" if row.cost is not None else "",
            f"${row.cost_per_win:.2f}" if row.cost_per_win is not None else "",
            f"{row.cache_hit_rate:.0%}" if row.cache_hit_rate is not None else "",
        )
    return shown


def _roles(roles: tuple[RoleCost, ...]) -> Table:
    columns = ("role", "model", "calls", "failed", "tokens", "cached", "cost", "median s", "answers used")
    shown = _table("what each role cost", *columns, "sessions", "with a win")
    for row in roles:
        shown.add_row(
            *(row.role, escape(row.model), str(row.calls), str(row.failed_calls), f"{row.tokens:,}"),
            f"{row.cache_hit_rate:.0%}" if row.cache_hit_rate is not None else "",
            f"${row.cost:.2f}" if row.cost is not None else "",
            f"{row.median_ms / 1000:.1f}" if row.median_ms is not None else "",
            f"{row.by_model} of {row.decisions}" if row.decisions else "",
            *(str(row.sessions), str(row.session_wins)),
        )
    return shown
