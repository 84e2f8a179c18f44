"""A nats-server with a configuration of its own, and what is needed to be let in."""

import asyncio
import base64
import contextlib
import hashlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from waiting import LIMIT_S

from kernelswarm.bus import server_binary

SHUTDOWN_S = 10.0
"""How long a server may take to end when it is asked to."""
BASE = """
host: {host}
port: -1
ports_file_dir: "{folder}"
max_payload: 8MB
jetstream {{ store_dir: "{folder}/store" }}
"""


@asynccontextmanager
async def nats_server(
    folder: Path, config: str, *, host: str = "127.0.0.1", environment: Mapping[str, str] | None = None, prefix=()
) -> AsyncIterator[int]:
    """Run a server; its port."""
    command = [*prefix, *_command(folder, BASE.format(host=host, folder=folder) + config)]
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        yield await _port(folder, process)
    finally:
        if process.returncode is None:
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), SHUTDOWN_S)
        if process.returncode is None:
            process.kill()
            await process.wait()


def _command(folder: Path, config: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.conf").write_text(config)
    return [server_binary(), "-c", str(folder / "server.conf"), "-l", str(folder / "server.log")]


def _listening(folder: Path) -> int | None:
    for path in folder.glob("*.ports"):
        with contextlib.suppress(ValueError, KeyError, IndexError):  # half written
            return int(json.loads(path.read_text())["nats"][0].rpartition(":")[2])
    return None


async def _port(folder: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(LIMIT_S):
        while process.returncode is None:
            if (port := _listening(folder)) is not None:
                return port
            await asyncio.sleep(0.01)
    raise AssertionError((folder / "server.log").read_text())


def certificates(folder: Path) -> dict[str, Path]:
    """An authority, a server's certificate for 127.0.0.1 and a client's, each with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make certificates with")
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}

    def openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    openssl(*new, "-x509", "-days", 2, "-subj", "/CN=test authority", "-keyout", ca_key, "-out", ca)
    for who in ("server", "client"):
        key, request, cert = folder / f"{who}.key", folder / f"{who}.csr", folder / f"{who}.pem"
        extension = folder / f"{who}.ext"
        extension.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl(*new, "-subj", f"/CN={who}", "-keyout", key, "-out", request)
        openssl(
            *("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-days", 2),
            *("-CAcreateserial", "-out", cert, "-extfile", extension),
        )
        paths |= {who: cert, f"{who}_key": key}
    return {"ca": ca, **paths}


def seed(kind: int) -> bytes:
    """A new nkey's seed: ``kind`` is one of the PREFIX_BYTE_ constants of the package nkeys."""
    import os

    import nkeys

    return nkeys.encode_seed(os.urandom(32), kind)


def jwt(claims: dict, signer) -> str:
    """A JWT as the server reads it, signed by an nkey."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    body = claims | {"jti": "", "iat": 1, "iss": signer.public_key.decode()}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    head = part(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    signed = f"{head}.{part(json.dumps(body).encode())}"
    return f"{signed}.{part(signer.sign(signed.encode()))}"
