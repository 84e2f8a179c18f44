"""What the process of a user is told to search."""

from kernelswarm.schemas import HardwareFacts, Pool, ProblemFacts, Schema


class RunConfiguration(Schema, frozen=True, kw_only=True):
    """A session to open. The problem was validated before, so its user needs no device."""

    session: str
    facts: ProblemFacts
    pool: Pool
    hardware: HardwareFacts
    candidates: tuple[str, ...]
    """Sources."""
    seed: int
