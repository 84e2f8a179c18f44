"""How commands connect to a cluster: the same options for credentials and TLS files, and the patience of services."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import bus
from .display.terminal import err

PANEL = "Credentials of the cluster"
"""Heading of these options in ``--help``."""

_HELP = {
    "credentials": ("--creds", "File of a NATS user's credentials (.creds), or with an nkey's seed."),
    "ca": ("--tls-ca", "Certificate authority that the servers' certificates are checked against (PEM)."),
    "cert": ("--tls-cert", "Certificate that this machine shows, if the servers ask for one (PEM)."),
    "key": ("--tls-key", "Key of that certificate (PEM)."),
}


def connecting(command: Any) -> Callable[..., Any]:
    """``command`` with these options, if it takes ``nats``; what is not given comes from the environment."""
    signature = inspect.signature(command)
    if "nats" not in signature.parameters:
        return command  # type: ignore[no-any-return]

    @functools.wraps(command)
    def connected(*args: Any, **kwargs: Any) -> Any:
        with bus.connecting_with(**{field: kwargs.pop(field, "") for field in _HELP}):
            return command(*args, **kwargs)

    added = [_parameter(field, flag, text) for field, (flag, text) in _HELP.items()]
    connected.__annotations__ = dict(command.__annotations__)
    connected.__annotations__.update({parameter.name: parameter.annotation for parameter in added})
    connected.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return connected


async def joined(url: str, *, name: str) -> "bus.Bus":
    """A service's connection. Its server may come later: they are started together, and servers are restarted.

    Raises:
        InputError: the URL or a credential is not usable.
        BusError: nobody answers, for as long as a lost server is waited for.
    """
    return await bus.Bus.connect(
        url, name=name, waiting=lambda: err.print("no NATS server answers yet; waiting for it", markup=False)
    )


def _parameter(field: str, flag: str, text: str) -> inspect.Parameter:
    option = typer.Option(
        flag, metavar="FILE", envvar=list(bus.VARIABLES[field]), show_default=False, help=text, rich_help_panel=PANEL
    )
    return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default="", annotation=Annotated[str, option])
