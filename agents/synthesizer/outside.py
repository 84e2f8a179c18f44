"""Outside authors as a synthesizer backend: a plan becomes a task."""

from ...graph.tasks import CHECKS
from ...schemas import OUTSIDE, TaskOpened
from .backend import Answer, Request


class OutsideBackend:
    """Answers a plan with a task. Its candidate comes when somebody hands one in, from the dispatcher."""

    name = OUTSIDE

    def check(self, model: str = "", base_url: str = "") -> None:
        """Nothing can be missing: authors come later."""

    async def synthesize(self, request: Request) -> Answer:
        """Offer the task."""
        return Answer(task=TaskOpened(checks=CHECKS))

    async def close(self) -> None:
        """Nothing to release."""
