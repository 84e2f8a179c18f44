"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from ..agents.planner.policies import POLICIES
from ..agents.synthesizer.authors import AUTHOR_NAMES
from ..sessions.session import AGAINST, MEASURES
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
Minutes = Annotated[
    float | None,
    typer.Option(
        "--minutes",
        help="Stop planning after so many minutes; what is under way is finished, and finalists are confirmed.",
        show_default=False,
    ),
]
Target = Annotated[
    float | None,
    typer.Option("--target", help="Stop at this speedup over what --against names.", show_default=False),
]
Against = Annotated[
    str,
    typer.Option(
        "--against",
        help="What a win is measured against: best (of eager, torch.compile and max-autotune), compile or eager.",
        autocompletion=lambda: list(AGAINST),
    ),
]
Author = Annotated[
    str,
    typer.Option(
        "--author",
        "--synthesizer",
        help=f"Who writes candidates: {', '.join(AUTHOR_NAMES)}, or several with their shares of the nodes: "
        "generator,anthropic:2.",
        autocompletion=lambda: list(AUTHOR_NAMES),
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="Model of an author that asks one; of several: anthropic=NAME,openai=NAME. Roles beside it: analyst=NAME.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str,
    typer.Option(
        "--base-url",
        help="Server of the author openai: vLLM, Ollama, SGLang, whatever speaks its format.",
        show_default=False,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        help="US dollars that models may cost: a request that could pass it is not sent.",
        show_default=False,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        help="Tokens that models may use, requests and answers together, likewise.",
        show_default=False,
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        help=f"How the search graph grows: {' or '.join(POLICIES)}.",
        autocompletion=lambda: list(POLICIES),
    ),
]
Measure = Annotated[
    str,
    typer.Option(
        "--measure",
        help="Which number makes a win on an accelerator: device (its own time), or call (also with the host's "
        "overhead, in an ordinary process). Both are shown; on a processor they are one.",
        autocompletion=lambda: list(MEASURES),
    ),
]
Workers = Annotated[bool, typer.Option(help="Run workers here; --no-workers leaves the work to a swarm.")]
