"""``kernelswarm mcp``: the tasks of open sessions for coding agents, over the Model Context Protocol."""

import os
import secrets
from typing import Annotated

import typer

from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.outside.joining import AGENT_VARIABLE
from ..display.terminal import err
from ..options import Nats

TOKEN_VARIABLE = "KERNELSWARM_MCP_TOKEN"
"""Environment variable with the token that HTTP clients have to show."""

LEAST_TOKEN = 16
"""Characters: a shorter one can be guessed."""

EXAMPLES = (
    "claude mcp add kernelswarm -- kernelswarm mcp              # Claude Code starts it and speaks over stdio",
    "kernelswarm mcp --http 8765                                # streamable HTTP, on this machine alone",
    f"{TOKEN_VARIABLE}=… kernelswarm mcp --http 0.0.0.0:8765 --nats nats://10.0.0.1:4222",
)


def mcp(
    http: Annotated[
        str,
        typer.Option(
            "--http",
            metavar="[HOST:]PORT",
            help=f"Serve streamable HTTP there instead of stdio. Clients show the token in {TOKEN_VARIABLE}; "
            "without one a new one is printed.",
            show_default=False,
        ),
    ] = "",
    agent: Annotated[
        str,
        typer.Option("--agent", envvar=AGENT_VARIABLE, help="Name of the agent, for people.", show_default=False),
    ] = "",
    nats: Nats = "",
) -> int:
    """Serve tasks to coding agents over MCP: claim, check, submit, leaderboard, knowledge, history."""
    from ..mcp_server import mcp_server  # half a second of imports

    server = mcp_server(kernelswarm_home(), nats, agent or "mcp")
    if not http:

        async def serve(interrupts: Interrupts) -> None:
            await server.run_stdio_async()

        run_interruptible(serve)
        return 0
    from ..mcp_http import HttpServer

    token, is_new = _token()
    http_server = HttpServer(server, http, token)

    async def listen(interrupts: Interrupts) -> None:
        err.print(f"MCP at {http_server.url}", markup=False)
        if is_new:
            err.print(f"token {token}  (set {TOKEN_VARIABLE} to keep one)", markup=False)
        with interrupts.politely(http_server.stop):
            await http_server.run()

    run_interruptible(listen)
    return 0


def _token() -> tuple[str, bool]:
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(f"{TOKEN_VARIABLE} is too short or not plain text: use at least {LEAST_TOKEN} characters")
    return (token, False) if token else (secrets.token_urlsafe(24), True)
