"""One process of the fleet: started, killed, held and let go, and started again."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelswarm.bus import server

_PARENT_DEATH = Path(server.__file__).with_name("parent_death.py")
_STOP_SECONDS = 20.0


class Process:
    """A command that ends with us, whatever ends us. What it prints is appended to ``log``."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.turn = asyncio.Lock()
        """Held by whatever breaks and mends it: one fault at a time."""
        self._command = command
        self._environment = environment
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id; 0 if it was never started."""
        return self._process.pid if self._process else 0

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.returncode if self._process else None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it, unless it runs."""
        if self.alive:
            return
        command = (sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), sys.executable, *self._command)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(self._environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def kill(self) -> None:
        """End it with SIGKILL."""
        self.send(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self.wait()
        except TimeoutError:
            await self.kill()

    async def wait(self) -> None:
        """Wait for its end."""
        if self._process is not None:
            await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
