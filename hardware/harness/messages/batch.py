"""Messages of timing from outside: to the process that makes the calls, and to the timekeeper."""

from ....schemas import Schema
from ...processes.arguments import Values
from .state import StateEntry


class Draw(Schema, frozen=True, kw_only=True, tag="draw"):
    """Have the reference draw input sets of a shape into one memory file. Answered by ``Drawn``."""

    shape: str
    seeds: tuple[int, ...]


class Drawn(Schema, frozen=True, kw_only=True, tag="drawn"):
    """Beside it: the memory file of all sets."""

    inputs: tuple[Values, ...]
    """What the sets are like: one for all, or one each. Positions count from where the set begins."""
    stride: int
    """Bytes from one set to the next."""
    seeds: tuple[int, ...]
    """Of the sets in the file, in order."""


class Lay(Schema, frozen=True, kw_only=True, tag="lay"):
    """Take the arena beside this as the inputs of batches. It holds valid input sets.

    On an accelerator they are copied there; those of a second one into the same tensors.
    """

    inputs: tuple[Values, ...]
    """What the sets are like, in turn."""
    stride: int
    sets: int
    """How many it has room for."""
    state: tuple[StateEntry, ...] = ()
    """What calls write. What it leaves there are the last outputs of each; of a module copies, which begins from the
    start before every call. Inputs lie in the arena, which is written anew for every batch."""
    aliased: bool = False
    """Whether outputs lie in the state, and have to be copied before the next call."""
    later: bool = False
    """Not now: they arrive directly before the next replay."""


class Warm(Schema, frozen=True, kw_only=True, tag="warm"):
    """Let go of the last batch's outputs, and make untimed calls on the inputs that are there."""

    calls: int
    name: str = ""
    """Which baseline; ignored by a candidate."""


class Batch(Schema, frozen=True, kw_only=True, tag="batch"):
    """Call once on each of the first input sets, and keep all outputs. Answered by ``Made``."""

    calls: int
    name: str = ""
    """Which baseline; ignored by a candidate."""
    inputs: tuple[Values, ...] = ()
    """What they are like, if not as before. Of calls made one by one, the first one's only."""
    one_by_one: bool = False
    """Answer each call by a ``Made`` of its own, and make the next one when a byte has come, or what its inputs are
    like (``Values``): they are there then. A form is in the first answer that has it."""


class Form(Schema, frozen=True, kw_only=True):
    """What an output is like, but for where it lies."""

    kind: str
    """``tensor``, ``int``, ``float``, ``bool``, ``none`` or ``other``."""
    type_name: str
    """Qualified name of its Python type."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    """In elements."""
    value: float | int | bool | None = None
    """Of a number."""


class Made(Schema, frozen=True, kw_only=True, tag="made"):
    """Where the outputs of a batch lie in its process's memory."""

    forms: tuple[tuple[Form, ...], ...]
    """Every form that the outputs of a call had."""
    calls: tuple[tuple[int, ...], ...]
    """Of each call: the index of its form, and the addresses of its tensors, 0 for what is none."""


# The timekeeper ----------------------------------------------------------------------------------------------------


class MakeArena(Schema, frozen=True, kw_only=True, tag="make_arena"):
    """Make an arena for sets of the pool whose memory file is beside this. Answered by ``ArenaMade``."""

    stride: int
    pool: int
    """How many sets the pool has."""
    sets: int
    """How many the arena has room for."""
    warm: int
    """How many of the pool's first sets it is filled with, over and over, until the first batch."""
    is_written: bool = False
    """Whether its process writes there, too: calls write some of their inputs."""


class ArenaMade(Schema, frozen=True, kw_only=True, tag="arena_made"):
    """Beside it: the arena's memory file, which only the timekeeper can write unless calls write their inputs."""

    arena: int


class Clear(Schema, frozen=True, kw_only=True, tag="clear"):
    """Forget an arena."""

    arena: int


class Keep(Schema, frozen=True, kw_only=True, tag="keep"):
    """Time one batch of a process. Beside it: the supervisor's end of that process's channel. Answered by ``Kept``."""

    pid: int
    arena: int
    sets: tuple[int, ...]
    """Which of the pool's sets the calls get, in order."""
    checked: tuple[int, ...]
    """Calls whose outputs are read once the process stands still."""
    most_bytes: int
    """Of the outputs of a call: whatever says that it is larger is not read."""
    request: bytes
    """The frame to send."""
    seconds: float
    """Limit."""
    one_by_one: bool = False
    """Whether the inputs of each call are written when the one before it has answered."""
    releases: tuple[bytes, ...] = ()
    """What is sent then, from the second call on; nothing given: a byte."""


class Kept(Schema, frozen=True, kw_only=True, tag="kept"):
    """How it went. Beside it: a memory file of the outputs of each checked call."""

    ns: int
    """From when the inputs could be read to the answer."""
    answer: bytes
    """What the process answered; empty if it ended."""
    late: bool = False
    """Whether it did not answer in time, or did not stand still."""
    steps_ns: tuple[int, ...] = ()
    """Of each call, where they are timed one by one."""
    looked: tuple[int, ...] = ()
    """Before which of them it was looked whether another thread of the process than the first one runs."""
    restless: int = 0
    """Before how many of those one did."""
    problems: tuple[str, ...] = ()
    """Of each checked call: why its outputs cannot be read; empty where they can."""


TimekeeperCommand = MakeArena | Clear | Keep
