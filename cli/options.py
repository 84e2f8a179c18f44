"""Options that several commands share."""

from typing import Annotated

import typer

Pool = Annotated[str, typer.Option("--pool", "-p", help="Hardware pool; `kernelswarm pools` lists them.")]
Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        envvar="KERNELSWARM_NATS",
        help="URL of a NATS cluster; without it a server of this program's own is used.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
