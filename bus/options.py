"""How to reach a server that is not ours: address, credentials, TLS."""

import contextlib
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..schemas import InputError, Schema

ACK_WAIT_SECONDS = 30.0
"""A delivery that is neither acknowledged nor renewed for so long goes to another worker."""

VARIABLES: Mapping[str, tuple[str, str]] = {
    "credentials": ("KERNELSWARM_NATS_CREDS", "NATS_CREDS"),
    "ca": ("KERNELSWARM_NATS_CA", "NATS_CA"),
    "cert": ("KERNELSWARM_NATS_CERT", "NATS_CERT"),
    "key": ("KERNELSWARM_NATS_KEY", "NATS_KEY"),
}
"""Environment variables that a path is looked up in, by field."""

_SCHEMES = ("nats", "tls", "ws", "wss")
_given: ContextVar[dict[str, str]] = ContextVar("connecting_with", default={})  # noqa: B039  never changed in place


class ConnectOptions(Schema, frozen=True, kw_only=True):
    """Settings of a connection that the URL does not hold."""

    credentials: str = ""
    """Path of a NATS ``.creds`` file, or of a file that holds an nkey's seed alone."""

    ca: str = ""
    """Path of the certificate authority's PEM file, for ``tls://`` servers that the system does not trust."""

    cert: str = ""
    """Path of the client's certificate, where the server asks for one."""

    key: str = ""
    """Path of the client's key."""

    replicas: int = 1
    """Copies that a cluster keeps of the stream and of artifacts; used when they are created."""

    ack_wait_s: float = ACK_WAIT_SECONDS
    """After so long what a silent worker held goes to another one. Every worker of a cluster needs the same value."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "ConnectOptions":
        """Read ``KERNELSWARM_NATS_CREDS``, ``…_CA``, ``…_CERT``, ``…_KEY``, ``…_REPLICAS`` and ``…_ACK_WAIT``.

        The first four fall back to ``NATS_CREDS``, ``NATS_CA``, ``NATS_CERT`` and ``NATS_KEY``, as in the tool
        ``nats``.

        Raises:
            InputError: the number of replicas is not 1, 3 or 5, or the wait is not a number of seconds from 1 to 3600.
        """
        env = os.environ if environment is None else environment
        replicas = env.get("KERNELSWARM_NATS_REPLICAS", "1")
        if replicas not in ("1", "3", "5"):
            raise InputError(f"KERNELSWARM_NATS_REPLICAS is {replicas!r}: use 1, 3 or 5")
        paths = {field: next((env[name] for name in names if env.get(name)), "") for field, names in VARIABLES.items()}
        return cls(replicas=int(replicas), ack_wait_s=_seconds(env), **paths)

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the client's ``connect``.

        Raises:
            InputError: a file is not there or not usable.
        """
        arguments: dict[str, Any] = {}
        if self.credentials:
            arguments[_kind_of_credentials(_file(self.credentials))] = self.credentials
        if self.ca or self.cert or self.key:
            arguments["tls"] = self._tls()
        return arguments

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=_file(self.ca) if self.ca else None)
            if self.cert or self.key:
                context.load_cert_chain(_file(self.cert), _file(self.key))
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"the TLS files of the event bus cannot be used: {error}") from error
        return context


@contextlib.contextmanager
def connecting_with(**paths: str) -> Iterator[None]:
    """Connect with these credentials and TLS files in the body, where a connection is not told others.

    ``paths`` are fields of :class:`ConnectOptions`; an empty one leaves the environment's.
    """
    token = _given.set({field: path for field, path in paths.items() if path})
    try:
        yield
    finally:
        _given.reset(token)


def default_options() -> ConnectOptions:
    """What :func:`connecting_with` says, and the environment for the rest. Errors: as ``from_environment``."""
    return msgspec.structs.replace(ConnectOptions.from_environment(), **_given.get())


def _kind_of_credentials(path: str) -> str:
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the credentials file {path} cannot be read: {error}") from error
    if "BEGIN NATS USER JWT" in text:
        return "user_credentials"
    if text.startswith("SU") and len(text.split()) == 1:
        return "nkeys_seed"
    raise InputError(f"{path} is no credentials file: it holds neither a NATS user's JWT nor the seed of a user's nkey")


def _seconds(env: Mapping[str, str]) -> float:
    given = env.get("KERNELSWARM_NATS_ACK_WAIT", f"{ACK_WAIT_SECONDS:g}")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= 3600.0:
        raise InputError(f"KERNELSWARM_NATS_ACK_WAIT is {given!r}: give a number of seconds from 1 to 3600")
    return seconds


def servers(url: str) -> list[str]:
    """The servers named in ``url``: one, or several with commas between them.

    Raises:
        InputError: one of them is not the URL of a NATS server.
    """
    addresses = [part.strip() for part in url.split(",") if part.strip()]
    for part in addresses:
        try:
            split = urlsplit(part)
            usable = split.scheme in _SCHEMES and bool(split.hostname) and split.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise InputError(f"{shown(part)!r} is not the URL of a NATS server: write it as nats://HOST:4222")
    if not addresses:
        raise InputError("the URL of the NATS server is empty: write it as nats://HOST:4222")
    return addresses


def inbox_prefix(url: str) -> str:
    """Where answers to this user go: a server that knows users can keep each from hearing another's."""
    user = urlsplit(url.split(",")[0].strip())
    named = user.username if user.password else None
    return f"_INBOX_{named}" if named and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", named) else "_INBOX"


def shown(url: str) -> str:
    """``url`` (or several, with commas between them) for people, without the passwords in it."""
    return ",".join(_shown(part.strip()) for part in url.split(","))


def _shown(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if at and "://" in head else tail


def _file(path: str) -> str:
    if not Path(path).is_file():
        raise InputError(f"{path!r} is not a file: it is named as a credential of the event bus")
    return path
