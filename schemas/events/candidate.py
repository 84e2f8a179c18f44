"""A synthesizer's answer to a plan."""

from .base import Event

Config = dict[str, str | int | float | bool]
"""Values of a synthesizer's tunables, by name."""


class CandidateProposed(Event, frozen=True, kw_only=True, tag="candidate.proposed.v1"):
    """A candidate kernel: one self-contained Python file."""

    source: str
    """The whole file; native code in it as strings."""
    sha256: str
    """Of the source."""
    language: str
    """``cpp``, …"""
    backend: str
    """Synthesizer backend that made it."""
    rationale: str = ""
    """Why it should be faster, one or two sentences."""
    recipe: Config = {}
    """Tunable settings, for backends that have tunables."""
    parents: tuple[str, ...] = ()
    """Nodes whose source it was made from."""
    skills: tuple[str, ...] = ()
    """Ids of the skills that were used."""


class SynthesisFailed(Event, frozen=True, kw_only=True, tag="candidate.synthesis_failed.v1"):
    """A backend could not answer a plan."""

    backend: str
    reason: str
    retryable: bool = False
    """Whether the same plan might work later (a rate limit) or not (nothing new left to propose)."""
    exhausted: bool = False
    """The backend has nothing new to propose for this problem, whatever the plan."""
