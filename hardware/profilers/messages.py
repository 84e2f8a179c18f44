"""What the supervisor and a process that waits to be profiled say to each other, over :mod:`..processes.wire`."""

from ...schemas import ProblemFormat, Schema
from ..processes.arguments import Values
from ..processes.messages import Failure


class WarmUp(Schema, frozen=True, kw_only=True, tag="warm_up"):
    """Start the device's context and the profiler: that takes seconds and needs no candidate."""

    seconds: float = 60.0
    """How long it may take."""


class Warm(Schema, frozen=True, kw_only=True, tag="warm"):
    """They are up."""


class Inspect(Schema, frozen=True, kw_only=True, tag="inspect"):
    """Load this candidate and warm it up. Beside it: the inputs' memory files, then that of ``setup``."""

    source: str
    format: ProblemFormat

    inputs: tuple[Values, ...]
    """Copies of the inputs, which the calls rotate through."""

    backward: bool = False
    """Whether its calls are both passes (:mod:`..harness.calls.backward`)."""

    setup: Values | None = None
    """Constructor's arguments and parameters, for a KernelBench problem."""

    artifacts: str = ""
    """Folder of compiled artifacts."""

    ahead: tuple[str, ...] = ()
    """Artifacts, by name, that go into Triton's cache before the import."""

    built: tuple[str, ...] = ()
    """Artifacts, by name, of programs that the file ran when it was built."""

    scratch: str = ""
    """The folder that it may write to."""

    programs: bool = False
    """Whether it may start programs: what was not compiled ahead has to be compiled there."""

    seconds: float = 60.0
    """How long loading, and then measuring, may take."""


class Loaded(Schema, frozen=True, kw_only=True, tag="loaded"):
    """It is there, and was called a few times."""

    isolation: tuple[str, ...]
    """Every layer in force."""


class Measure(Schema, frozen=True, kw_only=True, tag="measure"):
    """Call it now, in view of the profiler."""


class Measured(Schema, frozen=True, kw_only=True, tag="measured"):
    """It was called."""

    output: bytes = b""
    """What the profiler wrote inside the process; Nsight Compute writes outside of it."""


Question = WarmUp | Inspect
Answer = Warm | Loaded | Measured | Failure
