"""What is right to say of a kernel of the adversarial suite."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """What is right to say of one kernel."""

    verdicts: frozenset[str]
    naive: bool | None
    """Whether a naive evaluator accepts it; None: not to be asked, or chance decides."""
    free: bool = False
    """Whether the naive evaluator's clock shows no time at all for it."""
    says: str = ""
    """What the reason must name."""
    needs: str = ""
    """Layer of isolation that it takes."""
    may_win: bool = True
    """Whether it may be counted as faster where it is correct: what is right, and lies about its time, may not."""


def is_(
    *verdicts: str,
    naive: bool | None = True,
    free: bool = False,
    says: str = "",
    needs: str = "",
    may_win: bool = True,
) -> Expected:
    return Expected(frozenset(verdicts), naive, free, says, needs, may_win)


def unseen(*verdicts: str, says: str = "") -> Expected:
    """Of an attack on the harness itself: no naive evaluator has what it attacks, and it gains nothing."""
    return is_(*verdicts, naive=None, says=says, may_win=False)
