"""The device: everything the agents ask of a pool's hardware on this host, behind one object."""

import asyncio
import contextlib
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from ..schemas import (
    Artifact,
    BaselineReport,
    CompileReport,
    ContractProperty,
    DeviceProfile,
    HardwareFacts,
    InputError,
    Pool,
    Problem,
    ProblemFacts,
    ProfileReport,
    ShapeFacts,
    Timing,
    Verdict,
    VerifyReport,
    sha256,
)
from .finished_files import FinishedFiles
from .harness import inspection, judgement, judging, profiling, shortage
from .harness.baseline_process import BaselineProcess
from .harness.checking import check_small_inputs
from .harness.late_baseline import LateBaselines, without
from .harness.launcher import Launcher
from .harness.memory_demand import capacity_of
from .harness.peak_use import in_use_of
from .harness.problem_memory import ProblemMemory
from .harness.reference_process import ReferenceProcess
from .harness.timing import several_shapes
from .harness.timing.effort import USUAL, Effort
from .harness.validation_process import validate_problem
from .harness.verification import Verification
from .languages.artifact_cache import install
from .languages.compiling import compile_candidate
from .machine.lease import Lease
from .machine.reservations import MemoryReservations
from .ordinary import Settings


class Device:
    """A pool's hardware on this host.

    Every method can be cancelled. What is wrong with a candidate is a verdict in a report, what is wrong with a
    problem is a ProblemError; a HarnessError says that the harness itself failed.
    """

    def __init__(
        self,
        pool: Pool,
        hardware: HardwareFacts,
        home: Path,
        *,
        baselines: Sequence[str] | None = None,
        secret: str | None = None,
        accelerator: int = 0,
        background: bool = False,
    ) -> None:
        """Starts nothing yet.

        Args:
            pool: What to run on.
            hardware: What this machine is.
            home: Folder for caches.
            baselines: Which to compare with, of ``eager``, ``compile``, ``max_autotune``; by default the pool's.
            secret: What seeds are derived from; by default one that nobody knows, another for each problem.
            accelerator: Which of the hardware's accelerators to run on, from 0; of no meaning for a processor.
            background: Whether baselines that take long to compile join while candidates are judged against others.
        """
        self.home = home
        """Folder for caches; the user's own files are there, too."""
        self._pool = pool
        self._hardware = hardware
        self._baselines = pool.baselines if baselines is None else baselines
        self._secret = secret
        self._artifacts = home / "artifacts"
        self.accelerator = next(iter(hardware.accelerators[accelerator : accelerator + 1]), None)
        """The accelerator that candidates run on and whose lease is taken; None for a processor."""
        uuid = self.accelerator.uuid if self.accelerator else ""
        self._lease = Lease(pool, home, uuid)
        in_use = partial(in_use_of, self.accelerator) if self.accelerator else lambda: None
        capacity = capacity_of(hardware.memory_bytes, self.accelerator)
        reservations = MemoryReservations(pool, home, capacity, uuid, in_use)
        self.memory = ProblemMemory(reservations, self.accelerator, self._forget, in_use=in_use)
        """What the problems reserve of the device's memory."""
        self._launcher = Launcher(pool, hardware, home, self.accelerator)
        self._profilers = inspection.profilers_for(self.accelerator, home) if self.accelerator else None
        self._facts: dict[str, ProblemFacts] = {}
        """Of the problems that were validated here, or came with a session."""
        self._cases: dict[str, ReferenceProcess] = {}
        self._timing: dict[str, dict[str, BaselineProcess]] = {}
        """By problem and timed shape."""
        self._late = LateBaselines(self._launcher, self._lease, self._baselines if background else ())
        settings = Settings(pool, hardware, home, self._baselines, self.accelerator)
        self._large: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By problem: held while something large is done, of which the memory that the problem reserves holds one."""
        self._finished = FinishedFiles(settings, self._launcher, self._lease, self.memory, self._large, self._make_room)

    async def __aenter__(self) -> Self:
        try:
            self._artifacts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make {self._artifacts}: {error.strerror}; set KERNELSWARM_HOME to a folder that can be written"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.shield(self._close())

    def prepare_profilers(self) -> None:
        """Start what :meth:`inspect` needs, so that it holds up nobody who judges. Nothing to do for a processor."""
        if self._profilers is not None:
            self._profilers.get_ready(self._lease)

    def notify_of_others(self, notice: Callable[[str], None]) -> None:
        """Tell ``notice`` once, in a sentence, when another process has the machine while this one waits for it."""
        self._lease.on_others = notice

    async def validate_problem(self, problem: Problem) -> ProblemFacts:
        """Import, check, capture and count a problem.

        Raises:
            ProblemError: it cannot be searched on this pool; one sentence.
        """
        facts = await self.memory.validated(problem, partial(self._validated, problem))
        self._facts[problem.sha256] = facts
        return facts

    async def _validated(self, problem: Problem, memory_bytes: int) -> ProblemFacts:
        async with self._lease.compiling():
            await self._launcher.start()
        return await validate_problem(self._launcher, self._lease, problem, self.accelerator, memory_bytes)

    async def baselines(self, problem: Problem, facts: ProblemFacts | None = None) -> BaselineReport:
        """Compile the baselines for every timed shape and time them once; later calls return the same report."""
        facts = facts or await self.validate_problem(problem)
        self._facts[problem.sha256] = facts

        async def prepared() -> list[BaselineReport]:
            shortage.forget(self._timing_of(problem, shape) for shape in facts.timed)
            return [await self._timing_of(problem, at).prepare(facts.at(at), self._lease) for at in facts.timed]

        async with self._using(problem):
            reports = await self.memory.unless_short(problem, prepared, shortage.baselines)
            self._late.start(problem.sha256)
        return several_shapes.report_of(facts.timed, reports)

    def joined(self, problem: Problem, facts: ProblemFacts) -> BaselineReport | None:
        """The baselines with those that joined late, once; None before, and when it was asked already."""
        timings = self._timing.get(problem.sha256, {})
        ready = [timings[shape.name] for shape in facts.timed if shape.name in timings]
        reports = [timing.report for timing in ready if timing.report and not timing.joining]
        if len(reports) < len(facts.timed) or not self._late.is_news(problem.sha256):
            return None
        return several_shapes.report_of(facts.timed, reports)

    async def compile(self, source: str, language: str) -> tuple[CompileReport, dict[str, bytes]]:
        """Compile a candidate for this pool; needs none of its accelerators.

        Returns:
            The report, and the artifacts' bytes by sha256.

        Raises:
            PoolError: no such language, or no toolchain for it here.
        """
        async with self._lease.compiling():
            report, paths = await compile_candidate(
                source, language, pool=self._pool, hardware=self._hardware, cache=self._artifacts
            )
        return report, {digest: await asyncio.to_thread(path.read_bytes) for digest, path in paths.items()}

    def has(self, artifact: Artifact) -> bool:
        """Whether the local cache holds ``artifact``, byte for byte."""
        with contextlib.suppress(OSError):
            return sha256((self._artifacts / artifact.name).read_bytes()) == artifact.sha256
        return False

    async def install(self, artifact: Artifact, data: bytes) -> None:
        """Put an artifact that was compiled elsewhere into the local cache; raises as :func:`.install`."""
        await asyncio.to_thread(install, self._artifacts, artifact, data)

    async def verify(
        self, problem: Problem, source: str, compile_report: CompileReport, facts: ProblemFacts | None = None
    ) -> VerifyReport:
        """Judge a candidate on every case of the problem; ``facts`` of one that was validated elsewhere."""
        if facts is not None:
            self._facts[problem.sha256] = facts
        if not compile_report.ok:
            return VerifyReport(
                verdict=Verdict.compile_error, isolation="none", evidence=judgement.not_compiled(compile_report)
            )
        async with self._using(problem):
            verified = partial(self._verified, problem, source, compile_report, Verification.check_everything)
            return await self.memory.unless_short(problem, verified, shortage.report)

    async def check(self, problem: Problem, facts: ProblemFacts, source: str, compiled: CompileReport) -> VerifyReport:
        """Try a draft that was compiled on small inputs, which judge nobody; nothing is timed."""
        self._facts[problem.sha256] = facts
        async with self._using(problem):
            return await self._verified(problem, source, compiled, check_small_inputs)

    async def _verified(
        self, problem: Problem, source: str, compile_report: CompileReport, check: judging.Check
    ) -> VerifyReport:
        # Before the lease: whoever times a large candidate waits for that with this in hand.
        large = self._alone_if_large(problem)
        async with large as cases, self._lease.shared(makes_way=True) as share, self._launcher.getting_ready(share):
            seconds = self._pool.candidate_seconds
            return await judging.verify(self._launcher, cases, problem, source, compile_report, seconds, check, share)

    async def profile(
        self,
        problem: Problem,
        facts: ProblemFacts,
        source: str,
        compile_report: CompileReport,
        *,
        thorough: bool = False,
        effort: Effort = USUAL,
        limits: tuple[str, ...] = (),
    ) -> ProfileReport:
        """Time a candidate against the baselines, interleaved, with the machine for itself; at every timed shape.

        ``effort``: in how many processes at each shape, and until when; :attr:`.Timing.absent` names late baselines
        that were not there. ``limits``: on which inputs alone the verifier found it right.
        """
        if not compile_report.ok:
            return ProfileReport(
                verdict=Verdict.compile_error, isolation="none", evidence=judgement.not_compiled(compile_report)
            )
        self._facts[problem.sha256] = facts
        timed = partial(self._profiled, problem, facts, source, compile_report, thorough, effort, limits)
        async with self._using(problem):
            reports = await self.memory.unless_short(problem, timed, shortage.reports)
        return several_shapes.profile_of(facts.timed, reports)

    async def _profiled(
        self,
        problem: Problem,
        facts: ProblemFacts,
        source: str,
        compile_report: CompileReport,
        thorough: bool,
        effort: Effort,
        limits: tuple[str, ...],
    ) -> list[ProfileReport]:
        """Reports at the timed shapes, up to the first at which it is not timed."""
        reports: list[ProfileReport] = []
        for shape in facts.timed:
            timing = self._timing_of(problem, shape)
            # Which baselines are late shows once they are prepared; those that join are prepared then.
            await timing.prepare(facts.at(shape), self._lease)
            async with contextlib.AsyncExitStack() as held:
                late = await held.enter_async_context(self._late.compared(problem.sha256, shape.name, effort))
                await timing.prepare(facts.at(shape), self._lease)
                cases = await held.enter_async_context(self._alone_if_large(problem))
                if cases.large:
                    held.push_async_callback(timing.make_room)
                report = await profiling.profile(
                    self._launcher,
                    timing,
                    self._lease,
                    problem,
                    facts.at(shape),
                    self._hardware,
                    source,
                    compile_report,
                    seconds=self._pool.candidate_seconds,
                    thorough=thorough,
                    effort=effort.for_next(len(facts.timed) - len(reports)),
                    limits=limits,
                )
            reports.append(without(report, late))
            if report.timing is None:
                break
        return reports

    def get_ordinary_ready(self, problem: Problem, facts: ProblemFacts, absent: Collection[str] = ()) -> None:
        """Start the baselines' ordinary processes beside what is judged meanwhile, so that no finalist waits for them.

        Those that are ``absent`` load nothing yet; none does where the problem's memory holds few calls. Nothing to do
        for a processor, which has no time to spare.
        """
        self._finished.get_ready(problem, facts, absent)

    async def ordinary(
        self, problem: Problem, facts: ProblemFacts, text: str, *, effort: Effort = USUAL, absent: Collection[str] = ()
    ) -> tuple[Timing | None, str]:
        """Time the finished file ``text`` of a candidate that was found correct in ordinary processes, at every shape.

        On an accelerator that is the time of the *call*, the host's work included; :meth:`profile` has the *device's*.
        ``effort``: in how many processes at each shape, and until when. ``absent``: baselines that are not compared.

        Returns:
            The timing and "", or None and why there is none.
        """
        return await self._finished.time(problem, facts, text, effort, absent)

    async def contract(self, source: str, problem: Problem | None = None) -> tuple[ContractProperty, ...]:
        """Hold a finished file (:func:`.dropin.finish`) against the contract suite: is it a drop-in for its reference?
        Its native code is compiled first. It takes some ten seconds; nothing is timed. ``problem`` lends its memory.
        """
        return await self._finished.contract(source, problem, self._facts.get(problem.sha256) if problem else None)

    async def forget(self, problem: Problem) -> None:
        """End the processes that are kept warm for ``problem``: over many problems they would fill the memory."""
        await self._forget(problem.sha256)

    async def _forget(self, key: str) -> None:
        await self._finished.forget(key)
        await self._late.close(key)
        timings, cases = self._timing.pop(key, {}), self._cases.pop(key, None)
        for timing in timings.values():
            await timing.close()
        if cases is not None:
            await cases.close()
        self.memory.release(key)

    async def _make_room(self, key: str) -> None:
        """Have a problem's own processes hand back the device's memory that they keep for later steps."""
        async with self._lease.shared():
            for timing in list(self._timing.get(key, {}).values()):
                await timing.make_room()
            if key in self._cases:
                await self._cases[key].make_room()

    def _using(self, problem: Problem) -> contextlib.AbstractAsyncContextManager[None]:
        """The problem's memory, which is waited for."""
        return self.memory.using(problem, self._facts.get(problem.sha256))

    async def inspect(self, problem: Problem, source: str, compile_report: CompileReport) -> DeviceProfile | None:
        """Profile a candidate that was found correct, with the accelerator's profilers; seconds, not its verdict.

        None for a processor, whose counters are read while it is timed, and where this machine permits no profiler.
        What is wrong with a candidate under a profiler is said in the profile.
        """
        if self._profilers is None:
            return None
        async with self._using(problem):
            return await inspection.inspect(
                self._profilers,
                self._cases_of(problem),
                self._lease,
                problem,
                source,
                compile_report,
                self._artifacts,
                seconds=self._pool.candidate_seconds,
            )

    @contextlib.asynccontextmanager
    async def _alone_if_large(self, problem: Problem) -> AsyncIterator[ReferenceProcess]:
        """The problem's cases. Where they are large, its memory holds one candidate beside reference and baselines.

        Not to be asked for while the lease is held.
        """
        cases = self._cases_of(problem)
        if cases.large is None:
            async with self._lease.shared(makes_way=True) as share:
                await cases.prepare(share)
        async with self._large[problem.sha256] if cases.large else contextlib.nullcontext():
            yield cases

    def _cases_of(self, problem: Problem) -> ReferenceProcess:
        if problem.sha256 not in self._cases:
            # A problem that was forgotten and comes again meets other draws.
            secret = self._secret or secrets.token_hex(16)
            facts = self._facts.get(problem.sha256)
            self._cases[problem.sha256] = ReferenceProcess(self._launcher, problem, secret, facts)
        return self._cases[problem.sha256]

    def _timing_of(self, problem: Problem, shape: ShapeFacts) -> BaselineProcess:
        timings = self._timing.setdefault(problem.sha256, {})
        if shape.name not in timings:
            timed = self._cases_of(problem).timed(shape.name)
            timings[shape.name] = BaselineProcess(self._launcher, timed, problem, self._baselines, self._hardware)
            self._late.add(problem.sha256, shape, timings[shape.name])
        return timings[shape.name]

    async def _close(self) -> None:
        if self._profilers is not None:
            await self._profilers.close()
        for key in {*self._finished.hosts, *self._timing, *self._cases}:
            await self._forget(key)
        await self._launcher.close()
        await self.memory.close()
