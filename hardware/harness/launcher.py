"""Starts the worker processes of one device through a fork server, and replaces a fork server that died."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from ...schemas import Accelerator, HardwareFacts, HarnessError, Pool
from ..machine.cpu_facts import memory_bytes as machine_memory_bytes
from ..machine.lease import Share
from ..processes import wire
from ..processes.fork_server import FORK_SERVERS, ForkServerError, Program
from ..processes.forked_worker import forked_worker
from ..processes.messages import HOST, Done, Spawn
from ..processes.scratch import Scratch
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .allocator import allocator
from .messages.commands import Answer, Release
from .timing.timekeeping import TimekeeperProcess

GREET_SECONDS = 120.0
"""How long a worker may take to come up on a busy machine."""

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
    """The workers of one pool. Not tied to a problem; launchers of equal pools share a fork server."""

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
        self._memory_at_start = hardware.memory_bytes
        self._home = home
        self.threads = pool.threads or hardware.cores
        self.memory = pool.candidate_memory_bytes or hardware.memory_bytes // 2
        self._program: Program | None = None
        self._workers: set[Worker] = set()
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
        program = await self._shared_program()
        try:
            await asyncio.to_thread(FORK_SERVERS.start, program)
        except ForkServerError as error:
            raise _cannot_start(error) from error

    async def close(self) -> None:
        """End every worker, and the fork server if nobody else uses it."""
        self._waiting.clear()
        await asyncio.gather(*(worker.kill() for worker in self._workers if worker.alive))
        self._workers.clear()
        program, self._program = self._program, None
        if program is not None:
            await asyncio.to_thread(FORK_SERVERS.leave, program)
        await self.timekeeper.close()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    @property
    def caches(self) -> Path:
        """The folder that keeps what compilers of baselines made."""
        return self._home / "inductor"

    @property
    def reference_memory(self) -> int:
        """Bytes of main memory, which what we trust may take. Read anew: that of a virtual machine grows with use."""
        return max(self._memory_at_start, machine_memory_bytes())

    def _folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Scratch()
            # A candidate that calls torch.compile looks into it, and may make none.
            self.caches.mkdir(parents=True, exist_ok=True)
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
    async def getting_ready(self, share: Share) -> AsyncIterator[None]:
        """Beside the body, which holds ``share``, start processes for the candidates to come."""
        ended = asyncio.Event()
        starting = asyncio.ensure_future(self._get_ready(share, ended))
        try:
            yield
            ended.set()
            await starting
        finally:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting

    async def _get_ready(self, share: Share, ended: asyncio.Event) -> None:
        """As many as are missing, at once, and again, until enough wait or ``ended``.

        While the share is held, and until they are ready: a context that starts would disturb what is timed.
        """
        while share.is_held and (missing := self._standby - len(self._waiting) - self._coming) > 0:
            self._coming += missing
            try:
                with share.lease.steady():
                    started = await asyncio.gather(*(self._one_ready() for _ in range(missing)))
            finally:
                self._coming -= missing
            if ended.is_set() or not all(started):
                return

    async def _one_ready(self) -> bool:
        with contextlib.suppress(HarnessError, OSError):  # who needs one, and cannot have one, is told
            worker = await self.spawn("candidate")
            if await _answers(worker):
                self._waiting.append(worker)
                return True
            await worker.kill()
        return False

    async def spawn(self, role: str, *, memory_bytes: int = 0, programs: bool = False) -> Worker:
        """Fork a worker.

        Raises:
            HarnessError: no fork server can be started, or it cannot fork.
        """
        program = await self._shared_program()
        try:
            worker, _ = await forked_worker(
                program,
                lambda: self._request(role, memory_bytes or self.memory, programs),
                label=role,
                answers=Answer,
                seconds=GREET_SECONDS,
            )
        except ForkServerError as error:
            raise _cannot_start(error) from error
        self._workers = {other for other in self._workers if other.alive} | {worker}
        return worker

    def _request(self, role: str, memory_bytes: int, programs: bool) -> tuple[Spawn, Path]:
        self._count += 1
        scratch = self._folder() / str(self._count)
        scratch.mkdir()
        request = Spawn(
            role=role,
            scratch=str(scratch),
            memory_bytes=memory_bytes,
            threads=self.threads,
            confine=role in ("candidate", "contract"),
            device=self.device,
            programs=programs,
            environment=self._own_environment(scratch),
        )
        return request, scratch

    def _own_environment(self, scratch: Path) -> dict[str, str]:
        """What a child of this launcher sees of the environment beside what all children of the fork server do."""
        return {
            "HOME": str(self._folder()),
            "TMPDIR": str(scratch),
            "KERNELSWARM_ARTIFACTS": str(self.artifacts),
            "TORCHINDUCTOR_CACHE_DIR": str(self.caches),
        }

    async def _shared_program(self) -> Program:
        if self._program is None:
            program = await asyncio.to_thread(self._fork_server_program)
            # Another worker may have been asked for meanwhile.
            if self._program is None:
                FORK_SERVERS.use(program)
                self._program = program
        return self._program

    def _fork_server_program(self) -> Program:
        inherited = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        settings = {
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            # It would be compiled anew for every harness, in its scratch folder: ten seconds, for a kernel or two.
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "CUDA_VISIBLE_DEVICES": self._accelerator.uuid if self._accelerator else "",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # Built for each home folder and the same in all of them: its name says what it is made of.
        libraries = allocator(self.pool, self._home)
        names = {variable: Path(path).name for variable, path in libraries.items()}
        target = (self._accelerator.target, str(self._home / "triton")) if self._accelerator else ()
        return Program(
            module=f"{__package__}.children.fork_server",
            arguments=target,
            environment={**libraries, **inherited, **settings},
            identity=tuple(sorted({**names, **inherited, **settings}.items())),
        )


def _cannot_start(error: ForkServerError) -> HarnessError:
    return HarnessError(f"the evaluation process cannot start {error}; run `kernelswarm doctor`")


async def _answers(worker: Worker) -> bool:
    """Whether it lives, and has started all that it starts by itself."""
    try:
        answer, received = await worker.ask(Release(), Done, seconds=PING_SECONDS)
    except (WorkerDied, WorkerConfused, TimeoutError):
        return False
    wire.close_all(received)
    return isinstance(answer, Done)
