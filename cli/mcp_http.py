"""MCP over streamable HTTP: one port, one token."""

import contextlib
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..schemas import InputError

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WANTS_TOKEN = (
    "this server wants `Authorization: Bearer TOKEN`; the token is the one of KERNELSWARM_MCP_TOKEN where `kernelswarm "
    "mcp` was started, or where that was not set the one that it printed"
)
FAREWELL_S = 2
"""How long requests that are under way may take once it is to end."""


class HttpServer:
    """The server on a port of its own; :meth:`run` serves until :meth:`stop`."""

    def __init__(self, server: MCPServer[Any], address: str, token: str) -> None:
        """Listens from now on at ``HOST:PORT`` (or ``PORT``, on this machine alone).

        Raises:
            InputError: that is no address, or nothing can listen there.
        """
        host, port = _address(address)
        self._socket = _listening(host, port)
        self.url = f"http://{_bracketed(host)}:{self._socket.getsockname()[1]}{PATH}"
        # A page in a browser must not reach a server of this machine by a name that it made up. Elsewhere the server
        # does not know by which names it is called: the token is what protects it.
        security = None if host in LOOPBACK else TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = server.streamable_http_app(streamable_http_path=PATH, host=host, transport_security=security)
        config = uvicorn.Config(
            BearerToken(app, token), log_level="warning", timeout_graceful_shutdown=FAREWELL_S, lifespan="on"
        )
        self._server = _Server(config)

    async def run(self) -> None:
        """Serve until it is stopped."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Serve no longer."""
        self._server.should_exit = True


class BearerToken:
    """Lets nobody in without ``Authorization: Bearer TOKEN``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, or answer 401."""
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not secrets.compare_digest(given, self._expected):
            refusal = {"error": WANTS_TOKEN}
            await JSONResponse(refusal, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command line's."""
        yield


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or LOOPBACK[0]
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--http {text!r}: give HOST:PORT, or a PORT of this machine, as 127.0.0.1:8765")
    return host, int(port)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror or error}; choose another --http") from error


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
