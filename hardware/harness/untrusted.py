"""The supervisor's side of a candidate's process: sends commands, and checks every answer."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ...schemas import Verdict
from ..machine.lease import Share
from ..machine.slices import ask_in_slices
from ..processes import wire
from ..processes.messages import Failure
from ..processes.time_limit import waited_seconds
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from . import judgement
from .inputs.case import Case
from .judgement import judged
from .messages.commands import Load, Output

T = TypeVar("T")


@dataclass
class UntrustedCandidate:
    """A candidate's process, and how much time it has left."""

    worker: Worker
    seconds: float
    """Limit for everything it does in this step."""
    limits: tuple[str, ...] = ()
    """On which inputs alone it is right (:mod:`.limits`)."""
    share: Share | None = None
    """Let go of while it is asked something and somebody else waits for the machine: it stands still meanwhile."""
    _taken: float = field(default=0.0, init=False)
    """Seconds in which it was asked something."""

    @property
    def _left(self) -> float:
        """Seconds that it has left. That others kept it from a core is none of its time; asked once that matters."""
        waited = waited_seconds(self.worker.pid) if self._taken > self.seconds / 2 else 0.0
        return self.seconds - max(0.0, self._taken - waited)

    async def ask(
        self, command: object, kind: type[T], descriptors: tuple[int, ...] = (), *, case: Case | None = None
    ) -> tuple[T, list[int]]:
        """Ask it; only its own time counts.

        Raises:
            Judged: it raised, died, took too long or answered nonsense.
        """

        async def ask_worker(seconds: float) -> tuple[T | Failure, list[int]]:
            share = self.share
            if share is None:
                return await self.worker.ask(command, kind, descriptors, seconds=seconds)
            return await ask_in_slices(self.worker, command, kind, descriptors, share, seconds=seconds)

        step = "importing it" if isinstance(command, Load) else "the call"
        answer, received = await self.watched(ask_worker, step, case)
        if isinstance(answer, Failure):
            raise self.failed(answer, case)
        return answer, received

    def failed(self, failure: Failure, case: Case | None) -> judgement.Judged:
        """The verdict on what it answered on ``case``."""
        return judgement.failed(failure, case, self.worker.output)

    async def watched(self, ask: Callable[[float], Awaitable[T]], step: str, case: Case | None) -> T:
        """Do ``ask``, which gets the seconds that are left.

        Raises:
            Judged: it died, took too long or answered nonsense.
        """
        started, stood = time.monotonic(), self.share.waited_s if self.share else 0.0
        try:
            return await ask(max(self._left, 0.001))
        except TimeoutError:
            raise judgement.late(self.seconds, step, case, self.worker.output) from None
        except WorkerDied as error:
            raise judgement.died(error.ended, self.worker, case) from None
        except WorkerConfused as error:
            message = f"its process spoke to the harness out of turn: {error}"
            raise judged(Verdict.tampering, message, case=case) from None
        finally:
            stood = self.share.waited_s - stood if self.share else 0.0
            self._taken += time.monotonic() - started - stood


@dataclass(frozen=True)
class Taken:
    """Outputs as a candidate left them, in memory files that it cannot reach any more."""

    case: Case
    outputs: tuple[Output, ...]
    files: list[int]

    def close(self) -> None:
        """Let go of the memory."""
        wire.close_all(self.files)
        self.files.clear()
