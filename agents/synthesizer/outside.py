"""Outside authors as a synthesizer backend: a plan becomes a task."""

from ...graph.tasks import CHECKS
from ...schemas import OUTSIDE, TaskOpened
from .backend import Answer, Backend, Request


class OutsideBackend(Backend):
    """Answers a plan with a task. Its candidate comes when somebody hands one in, from the dispatcher."""

    name = OUTSIDE

    async def synthesize(self, request: Request) -> Answer:
        """Offer the task."""
        return Answer(task=TaskOpened(checks=CHECKS))
