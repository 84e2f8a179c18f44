"""A candidate is tried before it is handed in: compiled and verified on small inputs, not timed."""

from ..measurement import CompileReport, VerifyReport
from .base import Event


class CheckRequested(Event, frozen=True, kw_only=True, tag="candidate.check_requested.v1"):
    """An author wants to know whether a draft compiles and is right. The checker answers; nothing is decided by it."""

    source: str
    """The whole candidate file."""
    lease: str = ""
    """Lease of an outside author, which bounds how often it may ask; empty for the session's own authors."""
    compile_only: bool = False
    """Whether the compiler's messages are all that is wanted."""


class CandidateChecked(Event, frozen=True, kw_only=True, tag="candidate.checked.v1"):
    """What a check came to. The inputs are none of those that judge a candidate."""

    compiled: CompileReport
    verified: VerifyReport | None = None
    """None if it does not compile, or was only compiled."""
