"""The skill distiller: what did this session teach?"""

from collections.abc import Sequence

from ..knowledge import distill
from ..schemas import Event, SessionClosed, SkillDistilled
from .runtime import Answer, Work


class Distiller:
    """Writes a skill with its evidence from every session that measured something. Pure: it reads events only."""

    role = "distiller"
    consumes: tuple[type[Event], ...] = (SessionClosed,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Distill one session; a session without a correct candidate teaches nothing yet."""
        return []

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A skill that cannot be written is not written; the session stands without it."""
        return []

    async def close(self) -> None:
        """Nothing to release."""
