"""Finished files (:func:`.dropin.finish`) on a device: their time in ordinary processes, and the contract suite."""

import asyncio
from collections.abc import Collection
from pathlib import Path

from ..schemas import ContractProperty, Problem, ProblemFacts, Timing
from .harness.contract import contract_of
from .harness.launcher import Launcher
from .harness.timing.effort import Effort
from .languages.assembly import language_of
from .languages.compiling import compile_candidate
from .machine.lease import Lease
from .ordinary import Missing, OrdinaryHosts, Settings

CONTRACT_SECONDS = 120.0
"""Least limit for the contract suite: it makes some thirty modules, and compiles and exports some."""


class FinishedFiles:
    """Times and checks finished files; what they compile for themselves is compiled first."""

    def __init__(self, settings: Settings, launcher: Launcher, lease: Lease, artifacts: Path) -> None:
        """``artifacts`` is the folder of what was compiled. Starts nothing yet."""
        self._settings, self._launcher, self._lease, self._artifacts = settings, launcher, lease, artifacts
        self.hosts: dict[str, OrdinaryHosts] = {}
        """By the digests of the problems for which processes may be kept warm."""

    async def time(
        self, problem: Problem, facts: ProblemFacts, text: str, effort: Effort, absent: Collection[str]
    ) -> tuple[Timing | None, str]:
        """As :meth:`.Device.ordinary`; the problem's memory is the caller's."""
        if problem.sha256 not in self.hosts:
            self.hosts[problem.sha256] = OrdinaryHosts(self._settings, problem, facts)
        try:
            built = [self._artifacts / name for name in await self._built(text)]
            return await self.hosts[problem.sha256].time(text, self._lease, effort, built, absent), ""
        except Missing as missing:
            return None, str(missing)

    async def contract(self, source: str) -> tuple[ContractProperty, ...]:
        """As :meth:`.Device.contract`."""
        built = await self._built(source)
        seconds = max(self._settings.pool.candidate_seconds, CONTRACT_SECONDS)
        return await contract_of(self._launcher, self._lease, source, seconds=seconds, built=built)

    async def forget(self, problem: str) -> None:
        """End the processes of the problem of this digest."""
        hosts = self.hosts.pop(problem, None)
        if hosts is not None:
            await hosts.close()

    async def _built(self, text: str) -> tuple[str, ...]:
        """Compile a finished file; names of the artifacts of what it compiles for itself."""
        pool = self._settings.pool
        language = await asyncio.to_thread(language_of, text, pool.languages[0])
        async with self._lease.compiling():
            compiled, _ = await compile_candidate(
                text, language, pool=pool, hardware=self._settings.hardware, cache=self._artifacts
            )
        return compiled.names(".build")
