"""Decides what follows when a problem's baselines die: once is the system's fault, repeatedly the reference's."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...schemas import HarnessError, ReferenceDied
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .timing.timekeeping import TimekeeperDied

T = TypeVar("T")

MOST_CANDIDATES = 2
"""After so many candidates in a row beside which the baselines died twice it was not the candidates."""


class BaselinesDied(HarnessError):
    """The process in which the baselines are timed has ended; :meth:`.BaselineProcess.prepare` starts another.

    The message is a sentence, and what the process printed on further lines.
    """


def ended_in_words(error: Exception) -> str:
    """How a process ended, as a predicate: ``was killed by SIGSEGV``, ``exited with status 3``."""
    return f"was {error}" if str(error).startswith("killed") else str(error)


class Deaths:
    """The deaths of one problem's baselines at one timed shape."""

    def __init__(self) -> None:
        self._final: ReferenceDied | None = None
        self._beside = 0
        """Candidates in a row beside which they died twice."""

    async def prepared(self, prepare: Callable[[], Awaitable[T]]) -> T:
        """What ``prepare`` comes to, which is tried once more if they die.

        Raises:
            ReferenceDied: they died again, now or earlier.
        """
        if self._final is not None:
            raise self._final
        try:
            try:
                return await prepare()
            except BaselinesDied:
                return await prepare()
        except BaselinesDied as error:
            raise self.final(str(error)) from error

    async def answered(self, asking: Awaitable[T], worker: Worker | None) -> T:
        """What the process of the baselines answers, which is ``worker``.

        Raises:
            BaselinesDied: it has ended, or cannot do what it could before.
            ReferenceDied: it does not answer. Whoever tried again would wait as long once more.
        """
        try:
            return await asking
        except (WorkerDied, WorkerConfused) as error:
            raise dead(error, worker) from error
        except (TimeoutError, ReferenceDied) as error:
            reason = str(error) or "a batch of its calls did not end in time"
            raise self.final(f"the reference hung when it was timed: {reason}") from error
        except (BaselinesDied, TimekeeperDied):
            raise
        except HarnessError as error:
            raise BaselinesDied(str(error)) from error

    async def timed_again(self, time: Callable[[], Awaitable[T]]) -> T:
        """What ``time`` comes to, with a fresh process of a candidate beside which they died before.

        Raises:
            ReferenceDied: they died again.
        """
        try:
            return await time()
        except BaselinesDied as error:
            self._beside += 1
            if self._beside >= MOST_CANDIDATES:
                raise self.final(str(error)) from error
            raise ReferenceDied(str(error), is_final=False) from error

    def survived(self) -> None:
        """A candidate was timed against them to its end."""
        self._beside = 0

    def final(self, message: str) -> ReferenceDied:
        """What to raise now, and whenever somebody wants them again."""
        self._final = ReferenceDied(message)
        return self._final


def dead(error: WorkerDied | WorkerConfused, worker: Worker | None) -> BaselinesDied:
    """What to raise where ``worker`` ended."""
    printed = worker.output if worker is not None else ""
    return BaselinesDied(
        f"the reference died when it was timed: its process {ended_in_words(error)}\n{printed}".strip()
    )
