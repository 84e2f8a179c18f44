"""Messages of timing inside a process: calls on copies of the inputs, and the baselines beside a candidate."""

from ....schemas import Schema
from ...processes.arguments import Values
from .state import StateEntry

IDLE = "idle"
"""Name under which the baselines' process times calls that do nothing: what a batch costs beside its calls."""


class Upload(Schema, frozen=True, kw_only=True, tag="upload"):
    """Keep these inputs as one of the copies that timing rotates through. Beside it: their memory file."""

    inputs: Values
    reuse: int = -1
    """Index of the copy that they replace: in its tensors, at the same addresses, if they fit. -1: one more copy."""
    later: bool = False
    """Not now: they arrive in the middle of the next batch (:attr:`Time.before`)."""
    state: tuple[StateEntry, ...] = ()
    """What is put back before every timed call. Copies of it are the last outputs of the call whose output is kept."""


class Time(Schema, frozen=True, kw_only=True, tag="time"):
    """Time calls on the uploaded inputs, in turn."""

    calls: int
    warm: int = 0
    """Untimed calls before."""
    before: int = 0
    """Untimed calls before those, and before the inputs arrive that were uploaded for later."""

    name: str = ""
    """Which baseline; ignored by a candidate."""

    slot: int = -1
    """Where a candidate keeps one call's output; -1: nowhere."""

    flushes: int = 0
    """How often an accelerator's last-level cache is flushed before each call; 0: as usual."""
    one_by_one: bool = False
    """Time each call alone, on inputs that are written when the one before it has answered (:mod:`..timing.steps`).
    What counts is the median, times :attr:`calls`."""

    form: str = ""
    """Replay what was recorded (:mod:`..calls.recorded_calls`), in this form; empty: make the calls one by one."""


class Timed(Schema, frozen=True, kw_only=True, tag="timed"):
    """One batch."""

    ns: int
    """All timed calls together."""

    whole_ns: int
    """From the command's arrival to the answer, warm calls included."""

    kept: int
    """Index of the uploaded inputs that the call got whose output was kept, by chance; -1: those of all were kept."""

    is_restless: bool = False
    """Whether it computed while it waited for the inputs of calls that were made one by one."""


class Build(Schema, frozen=True, kw_only=True, tag="build"):
    """Compile one baseline and run it on every uploaded copy."""

    name: str
    runs: bool = True
    """False: compile it as far as that goes before its first kernel runs. It is asked for once more, then."""


class Built(Schema, frozen=True, kw_only=True, tag="built"):
    """Whether it can be timed."""

    ok: bool
    seconds: float
    detail: str = ""
    compiled: int = 0
    """Graphs that were compiled for it."""
    kept: int = 0
    """Graphs that were there already, from an earlier process."""
