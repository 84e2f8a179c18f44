"""The bus behind a model's tools: drafts go to a checker, questions to the log."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from ...bus import Bus
from ...schemas import CandidateChecked, CheckRequested, KernelswarmError, seal, sha256
from ...store.question_library import ask
from ..assembly import assembly_of
from ..runtime import Work, worker_name
from .model.desk import Checked, DeskError

QUESTION_SECONDS = 10.0
CHECK_SECONDS = 240.0
"""How long a checker may take: it compiles, and waits for whoever is timed."""


class BusDesk:
    """Answers one conversation's questions, as the author of the node that ``work`` plans."""

    def __init__(self, bus: Bus, home: Path, work: Work) -> None:
        self._bus, self._home, self._work = bus, home, work

    async def check(self, source: str, *, compile_only: bool) -> Checked:
        """Have a checker of the pool compile a draft, and try it on small inputs.

        Raises:
            DeskError: none answers in time, or the bus is gone.
        """
        envelope = self._work.envelope
        request = seal(
            CheckRequested(source=source, compile_only=compile_only),
            session=envelope.session,
            pool=envelope.pool,
            node=envelope.node,
            cause=envelope.id,
            agent="synthesizer",
            worker=worker_name("synthesizer", 0),
            at_ns=time.time_ns(),
            # By its contents: an author that begins anew after a kill may ask something else.
            index=int(sha256(f"{compile_only}/{source}")[:12], 16),
        )
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._answer(request.id, await self._bus.publish(request))
        except TimeoutError as error:
            raise DeskError(f"no checker answered within {CHECK_SECONDS:g} s: hand in without") from error
        except KernelswarmError as error:
            raise DeskError(f"drafts cannot be checked now: {error}") from error

    async def _answer(self, request: str, seq: int) -> Checked:
        tail = self._bus.tail(session=self._work.envelope.session, after=max(0, seq - 1))
        async with contextlib.aclosing(tail):
            async for _, envelope in tail:
                event = envelope.event() if envelope.cause == request else None
                if isinstance(event, CandidateChecked):
                    return Checked(compiled=event.compiled, verified=event.verified)
        raise DeskError("the bus is gone")

    async def assembly(self, node: str) -> str:
        """Innermost loops of the machine code of a node's candidate first.

        Raises:
            DeskError: there is none to read.
        """
        try:
            return await assembly_of(self._work.graph, node, self._home, self._bus)
        except KernelswarmError as error:
            raise DeskError(str(error)) from error

    async def ask(self, question_name: str, values: Mapping[str, str]) -> str:
        """The answer of the log, a row a line.

        Raises:
            DeskError: the log cannot be asked.
        """
        try:
            asked, table = await ask(self._home, question_name, values, bus=self._bus, timeout=QUESTION_SECONDS)
        except KernelswarmError as error:
            raise DeskError(f"the log cannot be asked: {error}") from error
        lines = [", ".join(table.columns), *(", ".join(map(_cell, row)) for row in table.rows)]
        return f"{asked.title}\n" + "\n".join(lines) if table.rows else f"{asked.title}\nnothing yet"


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
