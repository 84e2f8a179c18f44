"""Judges one candidate: starts its process, runs the checks, and finds its limits."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from ...schemas import FINITE, CompileReport, Problem, Verdict, VerifyReport
from ..machine.lease import Share
from .judgement import Judged
from .launcher import Launcher
from .limits import limit_of
from .loading import load_into, started
from .messages.commands import Loaded
from .reference_process import ReferenceProcess
from .untrusted import UntrustedCandidate
from .verification import Verification

Check = Callable[[Verification], Awaitable[None]]
"""What a candidate is put through; raises :class:`.Judged`."""


async def verify(
    launcher: Launcher,
    host: ReferenceProcess,
    problem: Problem,
    source: str,
    compiled: CompileReport,
    seconds: float,
    check: Check = Verification.check_everything,
    share: Share | None = None,
) -> VerifyReport:
    """Judge a candidate by ``check``. Every fault of it is a verdict.

    What is wrong outside the call that the problem names is none (:mod:`.limits`): it is judged anew within limits.
    Between two cases whoever waits for the machine has it, whose ``share`` this is.

    Raises:
        HarnessError: reference or fork server cannot be kept alive.
    """
    began = time.monotonic()
    limits: tuple[str, ...] = ()
    while True:
        worker = await started(launcher, compiled)
        worker.yield_to_others()
        verification = Verification(host, UntrustedCandidate(worker, seconds, limits=limits, share=share), share)
        verdict, evidence, loaded, further = Verdict.correct, None, Loaded(), ""
        try:
            loaded = await load_into(verification.untrusted, launcher, host, problem, source, compiled)
            await check(verification)
        except Judged as error:
            verdict, evidence = error.verdict, error.evidence
            # The limit within which the verdict may be another one.
            further = await limit_of(error, host, problem)
        finally:
            await asyncio.shield(worker.kill())
        if not further:
            break
        limits = (*limits, further)
    if host.finite_inputs:
        limits = (*limits, FINITE)
    return VerifyReport(
        verdict=verdict,
        isolation=worker.isolation,
        cases=tuple(verification.results),
        evidence=evidence,
        declined=tuple(verification.declined),
        gradients=verification.gradients,
        weights=loaded.weights,
        renamed=loaded.renamed,
        limits=limits,
        seconds=time.monotonic() - began - (share.waited_s if share else 0.0),
    )
