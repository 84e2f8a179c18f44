"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from .completion import pool_names, python_files, session_ids

Pool = Annotated[
    str,
    typer.Option("--pool", "-p", help="Hardware pool; `kernelswarm pools` lists them.", autocompletion=pool_names),
]
Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        envvar="KERNELSWARM_NATS",
        help="URL of a NATS cluster; without it: this machine alone.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str,
    typer.Option("--nats", envvar="KERNELSWARM_NATS", help="URL of the NATS cluster; needed.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]
ProblemFile = Annotated[
    Path,
    typer.Argument(help="Problem file: a KernelBench file or a function file.", autocompletion=python_files),
]
SessionId = Annotated[
    str, typer.Argument(help="Session; `kernelswarm sessions` lists them.", autocompletion=session_ids)
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder for best.py and result.json; by default sessions/SESSION in KERNELSWARM_HOME.",
        show_default=False,
    ),
]
Workers = Annotated[bool, typer.Option(help="Run workers here; --no-workers leaves the work to a swarm.")]
