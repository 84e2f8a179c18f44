"""Starts the fork server and has it fork workers; a fork server that died is replaced."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from ...schemas import Accelerator, HardwareFacts, HarnessError, Pool
from ..processes import wire
from ..processes.channel import Channel
from ..processes.messages import HOST, Done, Ready, Spawn
from ..processes.scratch import Scratch
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .allocator import allocator
from .messages.commands import Answer, Release
from .timing.timekeeping import TimekeeperProcess

START_SECONDS = 120.0
"""How long importing torch may take on a busy machine."""

KEPT_ENVIRONMENT = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "LANG", "LC_ALL", "TZ", "CXX",
    "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "SDKROOT", "LD_PRELOAD", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME", "CUDA_HOME", "TRITON_LIBCUDA_PATH", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES",
)  # fmt: skip
"""All that children get to see of our environment: no key, no token."""

STANDBY = 3
"""Candidates' processes that wait on an accelerator: one for the next to verify, one to time, one to spare."""
PING_SECONDS = 10.0


class Launcher:
    """One fork server for one pool. Not tied to a problem."""

    def __init__(
        self,
        pool: Pool,
        hardware: HardwareFacts,
        home: Path,
        accelerator: Accelerator | None = None,
        *,
        standby: int | None = None,
    ) -> None:
        """``accelerator`` is the one that children see, as ``cuda:0``; None: they compute in main memory.

        ``standby`` is how many candidates' processes :meth:`getting_ready` has wait, by default none in main memory.
        """
        self.pool = pool
        """What it runs for."""
        self._accelerator = accelerator
        self.device = HOST if accelerator is None else "cuda:0"
        """Where children keep their tensors."""
        self.pool_name = pool.name
        self.artifacts = home / "artifacts"
        """Folder of compiled artifacts, as the candidates see it."""
        self.reference_memory = hardware.memory_bytes
        self._home = home
        self.threads = pool.threads or hardware.cores
        self.memory = pool.candidate_memory_bytes or hardware.memory_bytes // 2
        self._process: asyncio.subprocess.Process | None = None
        self._control: Channel | None = None
        self._guard = asyncio.Lock()
        self._scratch: Scratch | None = None
        self._count = 0
        self._standby = (STANDBY if accelerator else 0) if standby is None else standby
        self._waiting: list[Worker] = []
        self.timekeeper = TimekeeperProcess(self._folder)
        """Times batches of its workers from outside."""
        self._coming = 0

    async def start(self) -> None:
        """Have the fork server import torch, if it has not yet: seconds of a processor, and nothing of an accelerator.

        Raises:
            HarnessError: it cannot be started.
        """
        async with self._guard:
            await self._running_fork_server()

    async def close(self) -> None:
        """End the fork server, and with it every worker."""
        while self._waiting:
            await self._waiting.pop().kill()
        await self._end()
        await self.timekeeper.close()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    def _folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Scratch()
        return self._scratch.path

    async def candidate(self, *, programs: bool = False) -> Worker:
        """A process for a candidate that has run nothing yet: one that waits, or a new one.

        Starting a device's context takes a good part of what judging a candidate does, and needs no candidate.

        Raises:
            HarnessError: as :meth:`spawn`.
        """
        while self._waiting and not programs:
            worker = self._waiting.pop(0)
            if await _answers(worker):
                return worker
            await worker.kill()
        return await self.spawn("candidate", programs=programs)

    @contextlib.asynccontextmanager
    async def getting_ready(self) -> AsyncIterator[None]:
        """Beside the body, start processes for the candidates to come. Others may use the device meanwhile."""
        ended = asyncio.Event()
        starting = asyncio.ensure_future(self._get_ready(ended))
        try:
            yield
            # None is left half-way: a context that starts would disturb what is timed once nobody shares the device.
            ended.set()
            await starting
        finally:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting

    async def _get_ready(self, ended: asyncio.Event) -> None:
        """One, and another, until enough wait or ``ended``."""
        while len(self._waiting) + self._coming < self._standby:
            self._coming += 1
            try:
                worker = await self.spawn("candidate")
                if not await _answers(worker):
                    await worker.kill()
                    return
                self._waiting.append(worker)
            except (HarnessError, OSError):
                return  # who needs one, and cannot have one, is told
            finally:
                self._coming -= 1
            if ended.is_set():
                return

    async def spawn(self, role: str, *, memory_bytes: int = 0, programs: bool = False) -> Worker:
        """Fork a worker.

        Raises:
            HarnessError: no fork server can be started, or it cannot fork.
        """
        reason = ""
        for _ in range(3):
            async with self._guard:
                control = await self._running_fork_server()
                request, ends, peers = self._prepare(role, memory_bytes or self.memory, programs)
                try:
                    await control.send(request, [end.fileno() for end in peers])
                except OSError as error:
                    reason = str(error)
                    await self._end()
                finally:
                    for end in peers:
                        end.close()
            worker = Worker(*ends, scratch=Path(request.scratch), label=role, answers=Answer)
            try:
                await worker.greet(START_SECONDS)
                return worker
            except asyncio.CancelledError:
                worker.abandon()
                raise
            except (EOFError, TimeoutError, OSError) as error:
                reason = f"{type(error).__name__} {error} {worker.output}".strip()
                await worker.kill()
        raise HarnessError(f"cannot start a {role} process: {reason}")

    def _prepare(
        self, role: str, memory_bytes: int, programs: bool
    ) -> tuple[Spawn, tuple[socket.socket, ...], tuple[socket.socket, ...]]:
        assert self._scratch is not None
        self._count += 1
        scratch = self._scratch.path / str(self._count)
        scratch.mkdir()
        request = Spawn(
            role=role,
            scratch=str(scratch),
            memory_bytes=memory_bytes,
            threads=self.threads,
            confine=role in ("candidate", "contract"),
            device=self.device,
            programs=programs,
        )
        pairs = [socket.socketpair() for _ in range(3)]
        return request, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)

    async def _running_fork_server(self) -> Channel:
        if self._control is not None and self._process is not None and self._process.returncode is None:
            return self._control
        await self._end()
        folder = self._folder()
        ours, theirs = socket.socketpair()
        self._control = Channel(ours)
        log = folder / "fork_server.log"
        try:
            with theirs, log.open("wb") as printed:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", f"{__package__}.children.fork_server", str(theirs.fileno())),
                    *(self._accelerator.target if self._accelerator else "", str(self._home / "triton")),
                    cwd=folder,
                    env=await asyncio.to_thread(self._environment, folder),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=printed,
                    stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                )
            async with asyncio.timeout(START_SECONDS):
                await self._control.receive(Ready)
        except (EOFError, TimeoutError, ValueError) as error:
            await self._end()
            raise HarnessError(
                f"the evaluation process cannot start with {sys.executable} ({type(error).__name__}): "
                f"{_last_line(log)}; run `kernelswarm doctor`"
            ) from error
        except BaseException:
            # Cancelled while it starts: half a fork server is of no use to whoever comes next.
            await self._end()
            raise
        return self._control

    def _environment(self, scratch: Path) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        return {
            **allocator(self.pool, self._home),
            **inherited,
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "KERNELSWARM_ARTIFACTS": str(self.artifacts),
            "TORCHINDUCTOR_CACHE_DIR": str(self._home / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            # It would be compiled anew for every harness, in its scratch folder: ten seconds, for a kernel or two.
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            # numpy's own pool would be a thread in the process that forks.
            "OPENBLAS_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": self._accelerator.uuid if self._accelerator else "",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    async def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _answers(worker: Worker) -> bool:
    """Whether it lives, and has started all that it starts by itself."""
    try:
        answer, received = await worker.ask(Release(), Done, seconds=PING_SECONDS)
    except (WorkerDied, WorkerConfused, TimeoutError):
        return False
    wire.close_all(received)
    return isinstance(answer, Done)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
