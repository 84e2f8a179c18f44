"""How to reach a server that is not ours: address, credentials, TLS."""

import importlib.util
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..schemas import InputError, Schema

_SCHEMES = ("nats", "tls", "ws", "wss")


class ConnectOptions(Schema, frozen=True, kw_only=True):
    """Settings of a connection that the URL does not hold."""

    credentials: str = ""
    """Path of a NATS ``.creds`` file (needs the package ``nkeys``)."""

    ca: str = ""
    """Path of the certificate authority's PEM file, for ``tls://`` servers that the system does not trust."""

    cert: str = ""
    """Path of the client's certificate, where the server asks for one."""

    key: str = ""
    """Path of the client's key."""

    replicas: int = 1
    """Copies that a cluster keeps of the stream and of artifacts; used when they are created."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "ConnectOptions":
        """Read ``KERNELSWARM_NATS_CREDS``, ``…_CA``, ``…_CERT``, ``…_KEY`` and ``…_REPLICAS``.

        Raises:
            InputError: the number of replicas is not 1, 3 or 5.
        """
        env = os.environ if environment is None else environment
        replicas = env.get("KERNELSWARM_NATS_REPLICAS", "1")
        if replicas not in ("1", "3", "5"):
            raise InputError(f"KERNELSWARM_NATS_REPLICAS is {replicas!r}: use 1, 3 or 5")
        names = {"credentials": "CREDS", "ca": "CA", "cert": "CERT", "key": "KEY"}
        paths = {field: env.get(f"KERNELSWARM_NATS_{name}", "") for field, name in names.items()}
        return cls(replicas=int(replicas), **paths)

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the client's ``connect``.

        Raises:
            InputError: a file is not there or not usable.
        """
        found: dict[str, Any] = {}
        if self.credentials:
            found["user_credentials"] = _file(self.credentials)
            if importlib.util.find_spec("nkeys") is None:
                raise InputError(f"credentials file {self.credentials} needs the package nkeys: `pip install nkeys`")
        if self.ca or self.cert or self.key:
            found["tls"] = self._tls()
        return found

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=_file(self.ca) if self.ca else None)
            if self.cert or self.key:
                context.load_cert_chain(_file(self.cert), _file(self.key))
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"the TLS files of the event bus cannot be used: {error}") from error
        return context


def servers(url: str) -> list[str]:
    """The servers named in ``url``: one, or several with commas between them.

    Raises:
        InputError: one of them is not the URL of a NATS server.
    """
    found = [part.strip() for part in url.split(",") if part.strip()]
    for part in found:
        try:
            split = urlsplit(part)
            usable = split.scheme in _SCHEMES and bool(split.hostname) and split.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise InputError(f"{shown(part)!r} is not the URL of a NATS server: write it as nats://HOST:4222")
    if not found:
        raise InputError("the URL of the NATS server is empty: write it as nats://HOST:4222")
    return found


def shown(url: str) -> str:
    """``url`` for people, without the password in it."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if at and "://" in head else tail


def _file(path: str) -> str:
    if not Path(path).is_file():
        raise InputError(f"{path!r} is not a file: it is named as a credential of the event bus")
    return path
