"""``kernelswarm export``: training data, events to import elsewhere, or Parquet, out of the log."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ... import store
from ...bus import asked_bus
from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import run_interruptible
from ..completion import session_ids
from ..display.terminal import err, out, print_json
from ..options import Json, Nats
from ..reading import nothing_in

EXAMPLES = (
    "kernelswarm export --format sft --out sft/",
    "kernelswarm export --format grpo --where \"backend = 'anthropic'\" --out grpo/",
    "kernelswarm export --format parquet --session mapid-7kq2m --out mapid/",
    'kernelswarm export --format events --where "at_ns > 1763683200000000000" --out new/',
)


class Format(StrEnum):
    """What is written."""

    sft = "sft"
    dpo = "dpo"
    grpo = "grpo"
    events = "events"
    parquet = "parquet"


def export(
    format: Annotated[Format, typer.Option("--format", "-f", help="What to write; docs/export.md says what is in it.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder that is not there yet, or is empty.")],
    where: Annotated[
        str,
        typer.Option(
            "--where",
            help="SQL condition on `nodes` (sft, dpo, grpo), `events` (events) or `sessions` (parquet).",
            show_default=False,
        ),
    ] = "",
    session: Annotated[
        list[str] | None,
        typer.Option("--session", "-s", help="Only this session; may be repeated.", autocompletion=session_ids),
    ] = None,
    nats: Nats = "",
    json: Json = False,
) -> int:
    """Export the log into a folder, without secrets: rewards are measured speedups, 0 if wrong.

    sft: the steps that led to best kernels. dpo: pairs, grpo: groups of answers to the same prompt state.
    events: can be imported again. parquet: every view. A manifest.json says what was taken and what was left out.
    """
    home = kernelswarm_home()
    if not nats and not store.log_path(home).exists():
        raise InputError(f"there is nothing to export: {nothing_in(home)}")

    async def write() -> "store.Manifest":
        async with asked_bus(nats) as bus:
            return await store.write_export(home, format.value, folder, where=where, sessions=session or (), bus=bus)

    manifest = run_interruptible(lambda _: write())
    if json:
        print_json(manifest)
        return 0
    rows = "row" if manifest.rows == 1 else "rows"
    sessions = "session" if manifest.sessions == 1 else "sessions"
    out.print(f"{manifest.rows} {rows} from {manifest.sessions} {sessions} in {folder}", markup=False)
    for reason, count in manifest.skipped.items():
        err.print(f"left out: {count} x {reason}", markup=False)
    for kind, count in manifest.redactions.items():
        err.print(f"redacted: {count} x {kind}", markup=False)
    return 0
