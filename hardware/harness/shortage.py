"""Collects the error texts in the result of a step, to detect that memory was short."""

from collections.abc import Iterable

from ...schemas import BaselineReport, ContractProperty, ProfileReport, Timing, VerifyReport
from .baseline_process import BaselineProcess
from .judgement import ran_out_of_memory


def report(judged: VerifyReport | ProfileReport) -> str:
    """Of a verdict."""
    return f"{judged.verdict.value.replace('_', ' ')}: {judged.evidence.message}" if judged.evidence else ""


def reports(judged: Iterable[ProfileReport]) -> str:
    """Of the verdicts at several shapes."""
    return "\n".join(map(report, judged))


def baselines(measured: Iterable[BaselineReport]) -> str:
    """Of baselines that are missing."""
    return "\n".join(status.detail for report in measured for status in report.statuses if not status.ok)


def forget(timings: Iterable[BaselineProcess]) -> None:
    """Have the baselines prepared anew where one of them ran out of memory: there may be more now."""
    for timing in timings:
        if timing.report is not None and ran_out_of_memory(baselines([timing.report])):
            timing.report = None


def missing(timed: tuple[Timing | None, str]) -> str:
    """Of a finished file that was not timed in ordinary processes."""
    return timed[1]


def properties(checked: Iterable[ContractProperty]) -> str:
    """Of a finished file that is no drop-in."""
    return "\n".join(check.detail for check in checked if not check.ok)
