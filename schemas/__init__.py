"""What is said: events and the records they carry. Read this folder and you know the system. No I/O."""

from . import events
from .base import Schema, decode, encode, sha256
from .device_profile import DeviceProfile, KernelProfile
from .diagnosis import Advice, AdviceAction, Bottleneck, Finding
from .envelope import Envelope, decode_envelope, encode_envelope, event_id, event_tag, seal
from .errors import (
    BusError,
    HarnessError,
    InputError,
    KernelswarmError,
    LogCorrupted,
    PoolError,
    ProblemError,
    ReferenceDied,
    ReplayDivergence,
    StoreError,
    near_miss,
)
from .events import *  # noqa: F403
from .graph import Arg, Dim, DType, Expr, Graph, Items, Node, Ref, SpecialFloat, SymbolSource, TensorMeta
from .measurement import (
    CONTIGUOUS,
    FINITE,
    FROM_SEED,
    Artifact,
    CompileReport,
    ContractProperty,
    Counters,
    Diagnostic,
    KernelResources,
    ProfileReport,
    VerifyReport,
    limits_text,
)
from .pool import Accelerator, HardwareFacts, Pool
from .presence import WorkerPresence
from .problem import InputFact, InputKind, Problem, ProblemFacts, ProblemFormat, ShapeFacts, StateFact, Work
from .timing import (
    BaselineReport,
    BaselineStatus,
    Interval,
    Roofline,
    Series,
    ShapeBaselines,
    ShapeSpeedup,
    ShapeTiming,
    Timing,
)
from .verdict import EQUAL_VALUES, CaseResult, Evidence, Verdict
