"""``kernelswarm doctor``: what of this machine helps or hinders a search."""

from collections import Counter

from rich.markup import escape
from rich.table import Table

from ...hardware.checks import Check, Status
from ...hardware.doctor import examine
from ...hardware.pools.pool_files import find_pool
from ...sessions.home import kernelswarm_home
from ..display.summary import count
from ..display.terminal import out, print_json, print_wide
from ..options import Json, Pool

EXAMPLES = ("kernelswarm doctor", "kernelswarm doctor --json | jq '.[] | select(.status != \"ok\")'")

_STYLES = {Status.ok: "green", Status.warn: "yellow", Status.fail: "bold red"}


def doctor(pool: Pool = "cpu", json: Json = False) -> int:
    """Look at what a search needs here, and say what to do about the rest. Exit status 1 if no search would run."""
    home = kernelswarm_home()
    checks = examine(find_pool(pool, home), home)
    if json:
        print_json(checks)
    else:
        print_wide(_table(checks))
        out.print(_verdict(checks))
    return 1 if any(check.status is Status.fail for check in checks) else 0


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for check in checks:
        style = _STYLES[check.status]
        detail = escape(check.detail) + (f"\n[dim]{escape(check.way_out)}[/]" if check.way_out else "")
        table.add_row(f"[{style}]{check.status}[/]", escape(check.name), detail)
    return table


def _verdict(checks: list[Check]) -> str:
    counts = Counter(check.status for check in checks)
    if counts[Status.fail]:
        return f"[bold red]not ready[/]: mend what failed ({counts[Status.fail]})"
    if counts[Status.warn]:
        return f"[green]ready[/]; {count(counts[Status.warn], 'thing')} could be better"
    return "[green]ready[/]"
