"""What can go wrong, as one small tree.

KernelswarmError            anything this package raises on purpose
├── InputError              the user gave something unusable: the message names the value and the way out (exit 2)
│   ├── ProblemError        a problem file cannot be searched on this pool
│   └── PoolError           an unknown pool, or one this machine cannot serve
├── BusError                the event bus cannot be reached or refused
├── StoreError              the log cannot be opened, read or written
│   └── LogCorrupted        the log's chain does not verify: the first bad event is named
├── ReplayDivergence        a fresh agent, fed the log, says something else than the log holds
└── HarnessError            the evaluation harness itself (not the candidate) failed
    └── ReferenceDied       the reference dies, hangs or fails in every process that runs it: trying again is no use
"""

import difflib
from collections.abc import Iterable


def near_miss(name: str, names: Iterable[str]) -> str:
    """``did you mean …? `` for the most similar of ``names``, to stand before what there is; empty if none is."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


class KernelswarmError(Exception):
    """Base of every error this package raises on purpose; its message says what was wrong and what to do."""


class InputError(KernelswarmError):
    """The user gave something unusable. Nothing was changed; the command line exits with 2."""


class ProblemError(InputError):
    """A problem file cannot be searched: it does not import, lacks ``reference``, is not deterministic, …"""


class PoolError(InputError):
    """The pool is unknown, or this machine cannot serve it."""


class BusError(KernelswarmError):
    """The event bus cannot be reached, or refused what was asked."""


class StoreError(KernelswarmError):
    """The event log cannot be opened, read or written."""


class LogCorrupted(StoreError):
    """The log's hash chain does not verify."""


class ReplayDivergence(KernelswarmError):
    """A fresh planner, analyst or distiller, fed the recorded events, said something else than was recorded."""

    def __init__(
        self, sentence: str, *, session: str, event: str, seq: int | None, recorded: str | None, replayed: str | None
    ) -> None:
        super().__init__(sentence)
        self.session = session
        self.event = event
        """Id of the first event that differs."""
        self.seq = seq
        """Its place in the history; None if it is not there."""
        self.recorded = recorded
        """What the log holds, as JSON; None if it holds no such event."""
        self.replayed = replayed
        """What the fresh agent said, as JSON; None if it said no such event."""


class HarnessError(KernelswarmError):
    """The evaluation harness itself failed; the candidate is not to blame."""


class ReferenceDied(HarnessError):
    """The reference dies, hangs or fails in every process that it is run in: another try would end like the last.

    The message's first line is a sentence for people; what the process printed may follow on further lines.
    """

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        """``is_final``: whether no other candidate can be judged either."""
        super().__init__(message)
        self.is_final = is_final

    @property
    def sentence(self) -> str:
        """The sentence without what was printed."""
        return str(self).partition("\n")[0]
