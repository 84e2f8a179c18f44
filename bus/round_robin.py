"""Round robin: work shared out among sessions by the time it takes, not by who asked first."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

FORGET_BEYOND = 1000
"""Sessions that an account is kept of; the ones that were served longest ago are forgotten first."""


@dataclass
class _Account:
    time: float = 0.0
    """Virtual time up to which it has been served."""
    busy: int = 0
    """Steps of it that are being worked on here."""
    served: int = 0
    """When it was served last, counted in steps."""


class RoundRobin:
    """Start-time fair queueing over sessions, one account for each role of a process.

    Every session has a virtual time that grows by the seconds that were spent on it; the one that is furthest behind
    comes next. Who had nothing to do meanwhile starts where the others are: idleness saves up no claim. ``draw`` (a
    number from 0 to 1) breaks ties, so that workers that know nothing of each other do not all choose the same one.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._accounts: dict[str, _Account] = {}
        self._now = 0.0
        self._steps = 0

    def order(self, sessions: Iterable[str]) -> list[str]:
        """``sessions`` in the order in which they should be served."""
        return sorted(set(sessions), key=self._claim)

    def begin(self, session: str) -> None:
        """A step of ``session`` was taken up."""
        account = self._accounts.setdefault(session, _Account())
        self._steps += 1
        account.time = self._now = max(account.time, self._now)
        account.busy += 1
        account.served = self._steps
        if len(self._accounts) > FORGET_BEYOND:
            idle = [name for name, entry in self._accounts.items() if not entry.busy]
            for name in sorted(idle, key=lambda idle_name: self._accounts[idle_name].served)[: FORGET_BEYOND // 2]:
                del self._accounts[name]

    def end(self, session: str, seconds: float) -> None:
        """A step of ``session`` is done and took ``seconds``."""
        account = self._accounts[session]
        account.busy -= 1
        account.time += seconds

    def _claim(self, session: str) -> tuple[int, float, int, float]:
        account = self._accounts.get(session, _Account())
        return account.busy, max(account.time, self._now), account.served, self._draw()
