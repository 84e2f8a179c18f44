"""The finished file: what a user gets."""

from ...schemas import Problem, ProblemFacts


def finish(problem: Problem, facts: ProblemFacts, source: str, *, header: str = "") -> str:
    """The text of the finished file."""
    return source
