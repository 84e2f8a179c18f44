"""The ordinary processes of one problem: the baselines' are kept, a candidate's are fresh each time."""

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ...schemas import Problem, ProblemFacts, Timing
from ..harness.inputs.sizes import LARGE_BYTES, MAIN_SEEDS, bytes_of
from ..harness.timing import interleaved
from ..harness.timing.effort import USUAL, Effort
from ..harness.timing.interleaved import CANDIDATE, Part
from ..harness.validation_process import is_large_call
from ..languages.program_runs import starts_programs
from ..machine.background_load import BackgroundLoad
from ..machine.lease import Lease
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.fork_server import FORK_SERVERS, START_SECONDS, ForkServerError, Program
from ..processes.forked_worker import forked_worker
from ..processes.messages import Done, Spawn
from ..processes.scratch import Scratch
from .agreement import difference
from .compiled import told_of
from .environment import compiling, ordinary_environment, own_environment
from .process import Missing, OrdinaryProcess, Sampled
from .rounds import DEVICE_SPREADS, SPREADS, Runner, hold
from .settings import Settings
from .trust import COMPILES, CONFINED, TRUSTED
from .unseen import check_unseen

PROCESSES = 3
"""Fresh processes in which a candidate is timed."""
BUILD_SECONDS = 240.0
"""Limit for compiling a baseline, or a file that compiles for itself."""
EAGER = "eager"
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx")
"""What the processes of the other baselines import beside torch: seconds, in which nothing is compiled yet."""
CONSTRUCTOR = (Path(__file__).parents[1] / "dropin" / "constructor.py").read_text(encoding="utf-8")
"""What tells the arguments of a module's constructor and of a call; read, since importing it imports torch."""
THREADS_BYTES = 16 << 30
"""Address space that the stacks and heaps of threads reserve before the user's code takes any."""

T = TypeVar("T")


class OrdinaryHost:
    """Times finished files of one problem in ordinary processes, at one shape."""

    def __init__(self, settings: Settings, problem: Problem, facts: ProblemFacts) -> None:
        """Starts nothing yet; ``facts`` have the shape as the first (:meth:`.ProblemFacts.at`)."""
        self.settings = settings
        """What all its processes have in common."""
        self.problem = problem
        """Whose baselines these are."""
        self._facts = facts
        self._seeds = [secrets.randbits(48) for _ in range(MAIN_SEEDS + 1)]
        self._guard = asyncio.Lock()
        self._scratch: Scratch | None = None
        self._program: Program | None = None
        self._count = 0
        self._baselines: list[Runner] = []
        self._waiting: dict[str, OrdinaryProcess] = {}
        """Processes of baselines that have imported what they need, and loaded nothing yet."""
        self.missing: dict[str, str] = {}
        """Baselines that cannot be timed, and why."""
        self.isolation = ""
        """Layers around the candidate's last process."""
        self._expected: list[Sampled] = []
        self._compiled: dict[str, Any] = {}
        self._sample_seed = secrets.randbits(48)

    async def close(self) -> None:
        """End all processes."""
        await self._end_baselines()
        program, self._program = self._program, None
        if program is not None:
            await asyncio.to_thread(FORK_SERVERS.leave, program)
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    async def get_ready(self, lease: Lease, absent: Collection[str]) -> None:
        """Start the processes of all baselines, and have those load that are not ``absent``: who times a finished file
        next waits for less. None loads where ``eager`` is absent. A baseline that cannot be had is named then."""
        async with self._guard:
            steps: list[Awaitable[None]] = [self._wait(name, lease) for name in absent]
            if EAGER not in absent:
                steps.append(self._prepare_baselines(lease, absent))
            try:
                done = await asyncio.gather(*steps, return_exceptions=True)
            except asyncio.CancelledError:
                await asyncio.shield(self._end_baselines())
                raise
        for error in done:
            if isinstance(error, BaseException) and not isinstance(error, Missing):
                raise error

    async def time(
        self,
        text: str,
        lease: Lease,
        effort: Effort = USUAL,
        artifacts: Sequence[Path] = (),
        absent: Collection[str] = (),
    ) -> Timing:
        """Time the finished file ``text`` in fresh processes, as many as ``effort`` allows, against the baselines.

        What was compiled of it is among ``artifacts``: what it compiles for itself is played back, and Triton finds its
        kernels, as in a user's second process. Baselines that are ``absent`` are left out: compiling one here that the
        judge still compiles would take minutes.

        Raises:
            Missing: that cannot be done; the message says why.
        """
        size = sum(bytes_of(fact.shape, fact.dtype) for fact in self._facts.shapes[0].inputs)
        if size >= LARGE_BYTES:
            raise Missing(f"its inputs are too large for several processes at once ({size / 1e9:.1f} GB)")
        parts: list[Part] = []
        is_again = False

        def result() -> Timing:
            return interleaved.result(parts, table=DEVICE_SPREADS if self.settings.accelerator else SPREADS)

        async with self._guard:
            self._compiled = told_of(artifacts, self.settings.home)
            try:
                await self._prepare_baselines(lease, absent)
                began = time.monotonic()
                while not effort.is_enough(len(parts), PROCESSES, time.monotonic() - began, result):
                    missing = (effort.processes or PROCESSES) - len(parts)
                    # An accelerator's memory holds few of large calls.
                    is_large = self.settings.accelerator is not None and is_large_call(self._facts.shapes[0])
                    most = 1 if effort.is_late or is_large else PROCESSES
                    try:
                        parts += await self._some_processes(text, lease, min(most, missing))
                    except Missing:
                        # A baseline ended, or all with their fork server: no candidate's fault, so all begins again.
                        if is_again or all(runner.process.alive for runner in self._baselines):
                            raise
                        is_again = True
                        parts.clear()
                        await self._prepare_baselines(lease, absent)
            except asyncio.CancelledError:
                # One of them may still be asked something, by a thread.
                await asyncio.shield(self._end_baselines())
                raise
        return result()

    async def _some_processes(self, text: str, lease: Lease, count: int) -> list[Part]:
        """Time ``count`` fresh processes that are started at once."""
        async with contextlib.AsyncExitStack() as stack:
            candidates = await stack.enter_async_context(self._candidates(text, count, lease))
            await self._compare(candidates, lease)
            async with lease.exclusive():
                parts = [await self._hold(runner) for runner in candidates]
            if not self._facts.state:
                async with lease.shared():
                    await asyncio.gather(*(asyncio.to_thread(self._compare_kept, runner) for runner in candidates))
        return parts

    async def _hold(self, candidate: Runner) -> Part:
        runners = [*self._baselines, candidate]
        others = BackgroundLoad([runner.process.pid for runner in runners])
        part = await asyncio.to_thread(hold, self._baselines, candidate)
        if self.settings.accelerator is None and not self._facts.state:
            shape, bound = self._facts.shapes[0], self._facts.output_bound
            size = sum(bytes_of(fact.shape, fact.dtype) for fact in (*shape.inputs, *shape.outputs))
            arguments = self._baselines[0], candidate, size, self._sample_seed, bound
            await asyncio.to_thread(check_unseen, *arguments)
        return Part(part.series, others.share())

    async def _prepare_baselines(self, lease: Lease, absent: Collection[str]) -> None:
        """Start and compile those that are not there."""
        dead = [runner for runner in self._baselines if not runner.process.alive]
        self._baselines = [runner for runner in self._baselines if runner.process.alive]
        await self._end([runner.process for runner in dead])
        self.missing.pop(EAGER, None)
        there = {*self.missing, *(runner.name for runner in self._baselines)}
        names = list(dict.fromkeys((EAGER, *self.settings.baselines)))
        wanted = [name for name in names if name not in there and name not in absent]
        await asyncio.gather(*(self._baseline(name, lease) for name in wanted))
        self._baselines.sort(key=lambda runner: names.index(runner.name))
        if EAGER in self.missing:
            await self._end_baselines()
            raise Missing(self.missing[EAGER])
        if EAGER not in there:
            async with lease.shared():
                eager = self._baselines[0]
                self._expected = await asyncio.to_thread(lambda: self._outputs(eager, eager.seconds))

    async def _baseline(self, name: str, lease: Lease) -> None:
        try:
            process = self._waiting.pop(name, None)
            if process is None or not process.alive:
                process = await self._imported(name, _label(name), "", lease)
            self._baselines.append(await self._loaded(name, process, "", BUILD_SECONDS, lease))
        except Missing as missing:
            self.missing[name] = str(missing)

    async def _wait(self, name: str, lease: Lease) -> None:
        """Have a process wait for what a baseline is to load; where it cannot be started, who needs it is told."""
        if name not in self._waiting and name in (EAGER, *self.settings.baselines):
            with contextlib.suppress(Missing):
                self._waiting[name] = await self._imported(name, _label(name), "", lease)

    @contextlib.asynccontextmanager
    async def _candidates(self, text: str, processes: int, lease: Lease) -> AsyncIterator[list[Runner]]:
        seconds = max(self.settings.pool.candidate_seconds, BUILD_SECONDS if starts_programs(text) else 0.0)
        starting = [asyncio.ensure_future(self._candidate(text, seconds, lease)) for _ in range(processes)]
        try:
            yield await asyncio.gather(*starting)
        finally:
            for start in starting:
                start.cancel()
            ended = await asyncio.gather(*starting, return_exceptions=True)
            await self._end([runner.process for runner in ended if isinstance(runner, Runner)])

    async def _candidate(self, text: str, seconds: float, lease: Lease) -> Runner:
        process = await self._imported(CANDIDATE, "the finished file", text, lease)
        runner = await self._loaded(CANDIDATE, process, text, seconds, lease)
        self.isolation = process.layers
        return runner

    async def _imported(self, name: str, label: str, text: str, lease: Lease) -> OrdinaryProcess:
        """A process that has imported what its implementation needs: seconds of a processor, nothing of an accelerator.

        Raises:
            Missing: there is none.
        """
        async with lease.compiling():
            process = await self._process(name, label, self._trust(name, text))
            if name not in (EAGER, CANDIDATE):
                await self._or_end(process, asyncio.to_thread(lambda: process.import_modules(COMPILER)))
        return process

    async def _loaded(self, name: str, process: OrdinaryProcess, text: str, seconds: float, lease: Lease) -> Runner:
        """The process once it has loaded its implementation.

        Raises:
            Missing: it does not; it has ended.
        """
        command = {
            "device": self.settings.device,
            "name": self.problem.name,
            "problem": self.problem.source,
            "shape": self._facts.shapes[0].name,
            "is_module": self._facts.is_module,
            "weight_exponents": self._facts.weight_exponents,
            "seed": self._seeds[0],
            "seeds": self._seeds[1:],
            "implementation": name,
            "file": text,
            "constructor": CONSTRUCTOR,
            **(self._compiled if name == CANDIDATE else {}),
        }
        await self._or_end(process, self._load(process, command, seconds, lease))
        return Runner(name, process, copies=MAIN_SEEDS, seconds=seconds)

    async def _or_end(self, process: OrdinaryProcess, work: Awaitable[None]) -> None:
        """Wait for ``work``, and end the process if that fails."""
        try:
            await work
        except BaseException:
            await self._end([process])
            raise

    async def _load(self, process: OrdinaryProcess, command: Mapping[str, Any], seconds: float, lease: Lease) -> None:
        """Loading compiles."""
        await self._sharing(
            [process], "load", seconds, lease, lambda s: asyncio.to_thread(lambda: process.load(command, s))
        )

    async def _sharing(
        self,
        processes: Sequence[OrdinaryProcess],
        action: str,
        seconds: float,
        lease: Lease,
        work: Callable[[float], Awaitable[T]],
    ) -> T:
        """Do ``work``, which asks ``processes`` for an ``action`` and gets the seconds to wait for an answer.

        On an accelerator they stand still while others time something there; that time does not count.
        """
        if self.settings.accelerator is None:
            async with lease.shared():
                return await work(seconds)

        def send(number: signal.Signals) -> None:
            for process in processes:
                process.send(number)

        try:
            return await in_slices(lambda: work(NO_LIMIT), lease, send, limit_s=seconds)
        except TimeoutError:
            raise Missing(f"{processes[0].label} did not {action} within {seconds:g} s") from None

    def _trust(self, name: str, text: str) -> str:
        """Triton compiles in the process that launches, a file may as well, and needs programs for it."""
        if name != CANDIDATE:
            return TRUSTED
        compiles = (self.settings.accelerator and "triton" in text) or (
            "built" not in self._compiled and starts_programs(text)
        )
        return COMPILES if compiles else CONFINED

    async def _process(self, name: str, label: str, trust: str) -> OrdinaryProcess:
        settings, trusted = self.settings, trust == TRUSTED
        memory = settings.hardware.memory_bytes if trusted else settings.memory

        def order() -> tuple[Spawn, Path]:
            if self._scratch is None:
                self._scratch = Scratch()
            self._count += 1
            scratch = self._scratch.path / str(self._count)
            scratch.mkdir()
            own = own_environment(scratch, settings.home / "artifacts", on_accelerator=settings.accelerator is not None)
            request = Spawn(
                role="ordinary",
                scratch=str(scratch),
                memory_bytes=memory,
                stacks_bytes=THREADS_BYTES,
                threads=0,
                confine=not trusted,
                device=settings.device,
                programs=trust == COMPILES,
                environment=own | (compiling(settings.home) if trusted else {}),
            )
            return request, scratch

        try:
            worker, server = await forked_worker(
                self._used_program(), order, label=label, answers=Done, seconds=START_SECONDS
            )
        except (ForkServerError, OSError) as error:
            raise Missing(f"{label} cannot be started: {error}") from error
        return OrdinaryProcess(worker, server, label, trust, settings.device)

    def _used_program(self) -> Program:
        """What the fork server of our processes runs; of equal hosts it is one."""
        if self._program is None:
            accelerator = self.settings.accelerator
            environment = ordinary_environment(
                threads=self.settings.pool.threads, accelerator=accelerator.uuid if accelerator else ""
            )
            identity = tuple(sorted(environment.items()))
            self._program = Program(f"{__package__}.fork_server", (), environment=environment, identity=identity)
            FORK_SERVERS.use(self._program)
        return self._program

    async def _compare(self, candidates: Sequence[Runner], lease: Lease) -> None:
        """Their first calls, on every copy of the inputs, against eager's first calls. Triton compiles in them."""

        async def compared(seconds: float) -> None:
            await asyncio.gather(
                *(asyncio.to_thread(partial(self._compare_outputs, runner, seconds)) for runner in candidates)
            )

        processes = [runner.process for runner in candidates]
        await self._sharing(processes, "call", candidates[0].seconds, lease, compared)

    # Both wait and compare in a thread: large outputs take longer than the event loop can spare.
    def _compare_outputs(self, runner: Runner, seconds: float) -> None:
        for expected, outputs in zip(self._expected, self._outputs(runner, seconds), strict=True):
            self._must_agree(expected, outputs)

    def _compare_kept(self, runner: Runner) -> None:
        """What its last timed call returned, and one more, with the numbers in other places: answers that are kept by
        address are right for one of both."""
        for again in (False, True):
            if again:
                runner.process.time(runner.copies, runner.seconds)
            got = runner.process.kept(self._sample_seed, runner.seconds)
            if not 0 <= got.copy < len(self._expected):
                raise Missing("the finished file answers nonsense")
            self._must_agree(self._expected[got.copy], got)

    def _outputs(self, runner: Runner, seconds: float) -> list[Sampled]:
        return [runner.process.check(copy, self._sample_seed, seconds) for copy in range(runner.copies)]

    def _must_agree(self, expected: Sampled, got: Sampled) -> None:
        clause = difference(expected, got, bound=self._facts.output_bound)
        if clause:
            raise Missing(f"the finished file does not give in an ordinary process what eager gives: {clause}")

    async def _end_baselines(self) -> None:
        await self._end([*(runner.process for runner in self._baselines), *self._waiting.values()])
        self._baselines, self._waiting = [], {}

    async def _end(self, processes: Sequence[OrdinaryProcess]) -> None:
        await asyncio.shield(asyncio.gather(*(process.close() for process in processes)))


def _label(baseline: str) -> str:
    return f"the process of {baseline}"
