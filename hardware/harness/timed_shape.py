"""One timed shape of a problem, for the code that times: its cases, and the pool of its input sets."""

from typing import TYPE_CHECKING

from .input_set_pool import InputSetPool
from .inputs.case import Case
from .messages.state import StateEntry

if TYPE_CHECKING:
    from ..machine.lease import Share
    from .reference_process import ReferenceProcess


class TimedShape:
    """A shape at which candidates are timed."""

    def __init__(self, host: "ReferenceProcess", name: str) -> None:
        """Nothing is drawn yet; ``name`` is the problem's, empty for the first timed shape."""
        self.host = host
        """Whose cases these are."""
        self.name = name
        self.supplies = InputSetPool(self, host.memory_bytes)
        """The pool of input sets that calls are timed on."""

    def close(self) -> None:
        """Forget the pool."""
        self.supplies.close()

    async def cases(self, share: "Share | None" = None) -> list[Case]:
        """The copies of the inputs that timing rotates through; they are made as :meth:`.cases_of` does."""
        return await self.host.cases_of(await self._shape(), share)

    async def final_case(self) -> Case:
        """A case that candidates meet only after they were timed."""
        return await self.host.final_case_of(await self._shape())

    async def state(self) -> tuple[StateEntry, ...]:
        """What is put back before every timed call."""
        cases = [*await self.cases(), await self.final_case()]
        return tuple(dict.fromkeys(entry for case in cases for entry in case.state))

    async def _shape(self) -> str:
        return self.name or (await self.host.shapes())[0]
