"""Commands of the supervisor to children, and their answers, which are data and never trusted code."""

from ....schemas import ProblemFacts, ProblemFormat, Schema
from ...processes.arguments import Values as Values
from ...processes.messages import Done, Failure
from .batch import Batch, Draw, Drawn, Form, Lay, Made, Warm
from .contract import CheckContract, ContractChecked
from .recording import Record, Recorded, TakeCall
from .state import CheckState, StateChecked, StateEntry
from .timing import Build, Built, Time, Timed, Upload

# The candidate -----------------------------------------------------------------------------------------------------


class Load(Schema, frozen=True, kw_only=True, tag="load"):
    """Import a candidate. Beside it: the memory file of ``setup``, for a KernelBench problem."""

    source: str
    format: ProblemFormat
    artifacts: str
    """Folder of compiled artifacts."""

    setup: Values | None = None
    """Constructor's arguments (a sequence) and parameters (a mapping)."""

    ahead: tuple[str, ...] = ()
    """Artifacts, by name, that go into Triton's cache before the import."""

    built: tuple[str, ...] = ()
    """Artifacts, by name, of programs that the file ran when it was built (:mod:`...languages.program_runs`)."""

    backward: bool = False
    """Whether its calls are both passes (:mod:`..calls.backward`)."""

    roles: dict[str, str] = {}
    """Of the module's parameters and buffers, by qualified name (:attr:`.InputFact.role`)."""


class Loaded(Schema, frozen=True, kw_only=True, tag="loaded"):
    """The candidate is imported, and its module made."""

    weights: str = ""
    """As :attr:`.VerifyReport.weights`."""

    renamed: dict[str, str] = {}
    """As :attr:`.VerifyReport.renamed`."""


class Run(Schema, frozen=True, kw_only=True, tag="run"):
    """Call the candidate on the inputs in the memory file beside this."""

    slot: int
    """Under which number inputs and outputs are held until ``Release``."""

    inputs: Values
    reuse: int = -1
    """Slot whose input tensors are overwritten in place and used again; -1: fresh tensors."""

    repeat: bool = False
    """Call on the inputs that ``slot`` holds already; nothing is beside it."""

    poison: str = ""
    """What fresh memory is filled with: ``torch`` (its pattern for uninitialised tensors, else 0x7F), ``malloc`` (0x7F
    only), or nothing."""

    state: tuple[StateEntry, ...] = ()
    """What the reference changes there. Copies of it are the last outputs."""

    continued: bool = False
    """Leave the state as the call before left it; otherwise it is put back to what it was after loading."""

    dense: bool = False
    """Hand in contiguous copies of tensors that lie otherwise."""


class Output(Form, frozen=True, kw_only=True):
    """One output as it was handed over."""

    begin: int = 0
    """Address range of its storage."""
    end: int = 0


class Ran(Schema, frozen=True, kw_only=True, tag="ran"):
    """What came out of a ``Run``."""

    outputs: tuple[Output, ...]
    mutated: int = -1
    """Index of the first input whose bytes changed; -1: none."""

    touched: tuple[str, ...] = ()
    """Global state, functions of torch, the clock or the harness that are not what they were."""


class Differentiate(Schema, frozen=True, kw_only=True, tag="differentiate"):
    """Call the candidate with gradients on, and take them (:mod:`..reference.gradients`). Answered by ``Ran``: they are
    its outputs. Beside it: the memory file of the inputs."""

    slot: int
    inputs: Values
    """The last of them are the cotangents."""
    followed: tuple[str, ...]
    """Names of the parameters whose gradients are asked for."""


class Dump(Schema, frozen=True, kw_only=True, tag="dump"):
    """Write a slot's outputs, contiguous and one after the other, into a memory file."""

    slot: int


class Dumped(Schema, frozen=True, kw_only=True, tag="dumped"):
    """Beside it: the memory file."""

    changed: int = -1
    """First output whose probed elements are not what they were when it was handed over; -1: none."""


class Release(Schema, frozen=True, kw_only=True, tag="release"):
    """Forget all slots."""


# The reference -----------------------------------------------------------------------------------------------------


class Open(Schema, frozen=True, kw_only=True, tag="open"):
    """Execute a problem file."""

    name: str
    format: ProblemFormat
    source: str
    seed: int
    """For weights."""

    weight_exponents: dict[str, int] = {}
    """Powers of two by which parameters are multiplied, by name (:attr:`.ProblemFacts.weight_exponents`)."""

    device: str = "cpu"
    """For messages: the pool's name."""


class Opened(Schema, frozen=True, kw_only=True, tag="opened"):
    """Beside it, for a KernelBench problem: the memory file of ``setup``."""

    shapes: tuple[str, ...]
    """Those that are timed come first."""
    timed: int = 1
    """How many of them are timed."""
    setup: Values | None = None
    backward: bool = False
    """Whether the problem asks for the backward pass, too."""
    sizes: dict[str, dict[str, int]] = {}
    """The sizes of every shape that has some: what :mod:`..inputs.held_out` may make others of."""
    roles: dict[str, str] = {}
    """Of the module's parameters and buffers, by qualified name."""
    finite_inputs: bool = False
    """Whether the problem says that its inputs are finite: candidates are judged on no others."""


class MakeCase(Schema, frozen=True, kw_only=True, tag="make_case"):
    """Draw inputs, compute oracle and the reference's own error, keep them."""

    case: int
    shape: str
    seed: int
    kind: str = "normal"
    """The problem's own inputs, or what is made of them (:mod:`..inputs.variants`)."""
    again: bool = False
    """Whether a process that is gone had made it: then candidates were checked on it, whatever it takes."""
    base: Values | None = None
    """Inputs to change instead of a draw, where a processor takes seconds for that. Beside it: their file."""
    sizes: dict[str, int] = {}
    """Sizes to draw at instead of those that ``shape`` names (:mod:`..inputs.held_out`)."""
    earlier: tuple[int, ...] = ()
    """Seeds of the calls that come before it, from the start on: it finds the state that they leave."""


class Expected(Schema, frozen=True, kw_only=True):
    """What one output must be."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    reference_error: float
    bound: float
    overlaps: bool = False
    """Whether its elements may share memory: those of the reference's do."""


class CaseMade(Schema, frozen=True, kw_only=True, tag="case_made"):
    """Beside it: the memory file of the inputs."""

    inputs: Values
    outputs: tuple[Expected, ...]
    float64: bool
    """Whether the oracle is in float64."""

    refused: str = ""
    """Why candidates cannot be checked on inputs of this kind; nothing is beside it then."""

    passing: tuple[str, ...] = ()
    """Wrong answers (:mod:`..reference.wrong_answers`) that would pass on the problem's own inputs."""

    state: tuple[StateEntry, ...] = ()
    """What the reference changes: the last of ``outputs``, in this order."""

    aliased: bool = False
    """Whether outputs lie in the state: they hold until the next call only."""

    passes_on: bool = False
    """Whether outputs lie in inputs of a call that changes nothing: they hold while these do."""

    followed: tuple[str, ...] = ()
    """Of a case of gradients: the parameters that they are taken of, beside the inputs."""

    labels: tuple[str, ...] = ()
    """Where there are gradients among ``outputs``: what each one is."""


class Compare(Schema, frozen=True, kw_only=True, tag="compare"):
    """Compare outputs (in the memory file beside this) with a case's oracle; errors may be ``allowance`` bounds."""

    case: int
    outputs: tuple[Output, ...]
    allowance: float = 1.0
    where_finite: bool = False
    """Whether any answer will do where the right one is not finite."""


class Compared(Schema, frozen=True, kw_only=True, tag="compared"):
    """How far off the worst output is."""

    ok: bool
    error: float
    """Largest finite error; :data:`UNMEASURABLE` if something is not comparable at all."""

    reference_error: float
    bound: float
    output: int = 0
    element: tuple[int, ...] = ()
    expected: str = ""
    got: str = ""
    unwritten: int = 0
    """Wrong elements that hold exactly the pattern of fresh memory; 0 if the worst is none of them."""
    finite: int = 0
    """Wrong elements that are finite where the right ones are not."""
    published: bool | None = None
    """As :attr:`.CaseResult.published`, of all outputs."""


class Explain(Schema, frozen=True, kw_only=True, tag="explain"):
    """Find out in which way an output is wrong. Beside it: the memory files of the outputs and of the case's inputs."""

    case: int
    output: int
    inputs: Values


class Explained(Schema, frozen=True, kw_only=True, tag="explained"):
    """What it looks like."""

    precision: str = ""
    """The sentence that says in which lower precision; empty if it does not look so."""
    is_reordered: bool = False
    """Whether it is indices of equal values in another order than the reference's."""


UNMEASURABLE = 1e300
"""Error of a NaN where a number belongs, and the like: events hold finite numbers only."""

# Problem validation --------------------------------------------------------------------------------------------------


class ValidateProblem(Schema, frozen=True, kw_only=True, tag="admit"):
    """Find out everything about a problem."""

    problem: Open
    memory_bytes: int = 0
    """Of an accelerator that its tensors may take, caches included; 0: no limit."""


class ProblemValidated(Schema, frozen=True, kw_only=True, tag="admitted"):
    """The problem can be searched."""

    facts: ProblemFacts


_Timing = Upload | Time | Lay | Warm | Batch | Record | TakeCall
CandidateCommand = Load | Run | Differentiate | Dump | Release | CheckState | _Timing
Command = CandidateCommand | Open | MakeCase | Draw | Compare | Explain | Build | ValidateProblem | CheckContract
CandidateAnswer = Done | Loaded | Ran | Dumped | StateChecked | Timed | Made | Recorded
Answer = (
    CandidateAnswer
    | Failure
    | Opened
    | CaseMade
    | Drawn
    | Compared
    | Explained
    | Built
    | ProblemValidated
    | ContractChecked
)
