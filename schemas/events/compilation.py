"""The compiler's answers."""

from ..measurement import CompileReport
from .base import Event


class CandidateCompiled(Event, frozen=True, kw_only=True, tag="candidate.compiled.v1"):
    """A loadable artifact exists for the pool's target."""

    report: CompileReport
    confirmation: bool = False


class CompilationFailed(Event, frozen=True, kw_only=True, tag="candidate.compilation_failed.v1"):
    """The toolchain refused the candidate; the diagnostics say where."""

    report: CompileReport
    given_up: bool = False
    """The step was abandoned after several deliveries, the candidate may not be to blame."""
