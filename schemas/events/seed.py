"""A kernel of an earlier session that a new search starts from."""

from ..base import Schema
from .candidate import Config


class SeedKernel(Schema, frozen=True, kw_only=True):
    """Chosen once, when the session opens; what it is worth here is measured here."""

    session: str
    """Where it was found."""
    node: str
    """Its node there."""
    problem: str
    """Name of the problem it was found for."""
    source: str
    """The whole file, as it is measured here."""
    sha256: str
    """Of the source."""
    language: str
    backend: str
    """Synthesizer backend that made it."""
    recipe: Config = {}
    """Tunable settings, for backends that have tunables."""
    similarity: float = 0.0
    """Of its problem, platform included, to this one, in [0, 1]."""
    speedup: float = 0.0
    """Median against the best baseline where it was found; not comparable with anything measured here."""
    adapted: bool = False
    """Whether only its settings came over: the source was written anew for this problem."""
