"""The distiller on the bus."""

import asyncio
from collections.abc import Sequence

from ...schemas import Event, SessionClosed
from ..consulting import AdvisedAgent, consult
from ..runtime import Answer, Work
from .by_model import consultation
from .lesson import lesson


class Distiller(AdvisedAgent):
    """Writes a skill with its evidence from every session that timed something. It reads events only.

    Where the session names a model for it, that adds what it makes of the session; the rules' skill stands in any case.
    """

    role = "distiller"
    consumes: tuple[type[Event], ...] = (SessionClosed,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Distill one session; one without a correct candidate teaches nothing yet."""
        assert isinstance(work.event, SessionClosed)
        taught = await asyncio.to_thread(lesson, work.opened, work.graph, work.envelope.session, work.event)
        if taught is None:
            return []
        asking = consultation(work.graph, taught)
        if asking is None:
            return [Answer(taught)]
        answers, skill = await consult(self._adviser, work, asking)
        return [*answers, Answer(skill)]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A skill that cannot be written is not written; the session stands without it."""
        return []
