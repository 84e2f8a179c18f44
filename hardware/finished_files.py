"""Finished files (:func:`.dropin.finish`) on a device: their time in ordinary processes, and the contract suite."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

from ..schemas import CompileReport, ContractProperty, KernelswarmError, Problem, ProblemFacts, Timing
from .harness import shortage
from .harness.contract import contract_of
from .harness.launcher import Launcher
from .harness.problem_memory import ProblemMemory
from .harness.timing.effort import Effort
from .harness.validation_process import is_large_call
from .languages.assembly import language_of
from .languages.compiling import compile_candidate
from .machine.lease import Lease
from .ordinary import EAGER, Missing, OrdinaryHosts, Settings

CONTRACT_SECONDS = 120.0
"""Least limit for the contract suite: it makes some thirty modules, and compiles and exports some."""


class FinishedFiles:
    """Times and checks finished files; what they compile for themselves is compiled first."""

    def __init__(
        self,
        settings: Settings,
        launcher: Launcher,
        lease: Lease,
        memory: ProblemMemory,
        large: Mapping[str, asyncio.Lock],
        make_room: Callable[[str], Awaitable[None]],
    ) -> None:
        """Starts nothing yet.

        Args:
            settings: What all ordinary processes have in common.
            launcher: Starts the suite's process.
            lease: Of the device.
            memory: What problems reserve of the device's memory.
            large: By problem: held while something large is done, of which the problem's memory holds one.
            make_room: Has a problem's other processes hand back the device's memory that they keep.
        """
        self._settings, self._launcher, self._lease = settings, launcher, lease
        self._artifacts = settings.home / "artifacts"
        self._memory, self._large, self._make_room = memory, large, make_room
        self.hosts: dict[str, OrdinaryHosts] = {}
        """By the digests of the problems for which processes may be kept warm."""
        self._getting_ready: dict[str, list[asyncio.Task[None]]] = defaultdict(list)

    def get_ready(self, problem: Problem, facts: ProblemFacts, absent: Collection[str]) -> None:
        """As :meth:`.Device.get_ordinary_ready`."""
        if self._settings.accelerator is None:
            return
        if _is_large(facts):
            # What they import takes nothing of the device's memory.
            absent = (EAGER, *self._settings.baselines)

        async def prepared() -> None:
            # Whoever times a finished file is told what cannot be had.
            with contextlib.suppress(KernelswarmError, OSError):
                async with self._memory.using(problem, facts):
                    await self._hosts_of(problem, facts).get_ready(self._lease, absent)

        task = asyncio.create_task(prepared(), name="ordinary processes get ready")
        self._getting_ready[problem.sha256].append(task)

    async def time(
        self, problem: Problem, facts: ProblemFacts, text: str, effort: Effort, absent: Collection[str]
    ) -> tuple[Timing | None, str]:
        """As :meth:`.Device.ordinary`."""

        async def timed() -> tuple[Timing | None, str]:
            try:
                compiled = await self._compiled(text)
                artifacts = [self._artifacts / artifact.name for artifact in compiled.artifacts]
                return await self._hosts_of(problem, facts).time(text, self._lease, effort, artifacts, absent), ""
            except Missing as missing:
                return None, str(missing)

        async with self._room(problem, facts):
            return await self._memory.unless_short(problem, timed, shortage.missing, self._make_room)

    async def contract(
        self, source: str, problem: Problem | None, facts: ProblemFacts | None
    ) -> tuple[ContractProperty, ...]:
        """As :meth:`.Device.contract`."""

        async def checked() -> tuple[ContractProperty, ...]:
            compiled = await self._compiled(source)
            seconds = max(self._settings.pool.candidate_seconds, CONTRACT_SECONDS)
            return await contract_of(self._launcher, self._lease, source, compiled, seconds=seconds)

        if problem is None:
            return await checked()
        async with self._room(problem, facts):
            return await self._memory.unless_short(problem, checked, shortage.properties, self._make_room)

    async def forget(self, problem: str) -> None:
        """End the processes of the problem of this digest."""
        for task in (tasks := self._getting_ready.pop(problem, [])):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        hosts = self.hosts.pop(problem, None)
        if hosts is not None:
            await hosts.close()

    @contextlib.asynccontextmanager
    async def _room(self, problem: Problem, facts: ProblemFacts | None) -> AsyncIterator[None]:
        """The problem's memory; nothing else of it beside the body where processes or the suite's modules fill it."""
        is_large = self._settings.accelerator is not None and facts is not None and _is_large(facts)
        alone = self._large[problem.sha256] if is_large else contextlib.nullcontext()
        async with self._memory.using(problem, facts), alone:
            yield

    def _hosts_of(self, problem: Problem, facts: ProblemFacts) -> OrdinaryHosts:
        if problem.sha256 not in self.hosts:
            self.hosts[problem.sha256] = OrdinaryHosts(self._settings, problem, facts)
        return self.hosts[problem.sha256]

    async def _compiled(self, text: str) -> CompileReport:
        """Compile a finished file; or find what was compiled when its candidate was."""
        pool = self._settings.pool
        language = await asyncio.to_thread(language_of, text, pool.languages[0])
        async with self._lease.compiling():
            compiled, _ = await compile_candidate(
                text, language, pool=pool, hardware=self._settings.hardware, cache=self._artifacts
            )
        return compiled


def _is_large(facts: ProblemFacts) -> bool:
    return any(map(is_large_call, facts.timed))
