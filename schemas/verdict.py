"""Whether a candidate is right: verdicts, and the evidence for them."""

from enum import StrEnum

from .base import Schema


class Verdict(StrEnum):
    """Terminal status of a candidate. Everything but ``correct`` names what is wrong."""

    correct = "correct"
    synthesis_failed = "synthesis_failed"
    """No candidate was made."""
    compile_error = "compile_error"
    """The compiler refused it."""
    load_error = "load_error"
    """It does not import, or lacks ``kernel`` / ``ModelNew``."""
    wrong_type = "wrong_type"
    """An output is not a plain tensor of the reference's dtype, or the number of outputs differs."""
    wrong_shape = "wrong_shape"
    wrong_numbers = "wrong_numbers"
    lower_precision = "lower_precision"
    """Wrong numbers whose errors are those of computing in a lower precision than asked; the evidence names it."""
    incomplete_output = "incomplete_output"
    """Part of an output was never written (the poison shows)."""
    input_mutated = "input_mutated"
    wrong_state = "wrong_state"
    """After a call the module's state (buffers, parameters, counters) or an input that the reference writes is not what
    the reference leaves."""
    wrong_gradients = "wrong_gradients"
    """Where gradients are on, it gives other gradients than the reference, or numbers without a graph."""
    not_deterministic = "not_deterministic"
    """Two runs on the same input differ by more than the error bound."""
    stale_output = "stale_output"
    """An output changed after it was handed over, or shares memory with another call's."""
    hidden_work = "hidden_work"
    """Work that the clock did not see: faster than the machine can be, or done after the call had returned."""
    tampering = "tampering"
    """Its own clock disagrees with the supervisor's, or the harness was touched."""
    runtime_error = "runtime_error"
    """It raised."""
    timeout = "timeout"
    crash = "crash"
    """Its process died."""
    out_of_memory = "out_of_memory"
    harness_error = "harness_error"
    """Not the candidate's fault: the step was given up after several tries."""


EQUAL_VALUES = "equal values in another order than the reference's, which counts as wrong"
"""Where nothing but the order of ties is wrong (docs/problems.md says what a problem can do about it)."""


class Evidence(Schema, frozen=True, kw_only=True):
    """Why a verdict fell: enough to see it with one's own eyes."""

    message: str
    """One sentence for people."""

    shape: str = ""
    """Name of the problem's shape it happened on; the sizes of one that the judge made up (``rows=35, cols=253``)."""

    seed: int | None = None
    """Seed of the inputs."""

    inputs: str = ""
    """Kind of the inputs, where they are not the problem's own at a shape of its own: ``shifted``, ``strided``,
    ``held_out``, … (docs/judge/inputs.md)."""

    output: int | None = None
    """Which output, from 0."""

    element: tuple[int, ...] = ()
    """Index of the worst element."""

    expected: str = ""
    """Value there by the oracle, as text (it may not be finite)."""

    got: str = ""
    """Value there by the candidate, as text."""

    log: str = ""
    """Traceback, signal, or the end of its output."""


class CaseResult(Schema, frozen=True, kw_only=True):
    """One input set on which a candidate was compared with the oracle."""

    shape: str
    """Name of the problem's shape, or the sizes of one that the judge made up."""

    seed: int
    """Seed of the inputs, private until now."""

    error: float
    """Candidate's error: max over elements of |got - oracle| / (|oracle| + rms(oracle)); 0 for equal integers."""

    reference_error: float
    """The reference's own error in its own precision, same measure."""

    bound: float
    """What was allowed."""

    inputs: str = "normal"
    """Kind of the inputs: ``normal`` as the problem draws them, else what was made of these (docs/judge/inputs.md)."""

    published: bool | None = None
    """Whether it is right by the tolerance that the problem's source publishes, which decides nothing; None where there
    is none, and in older events."""
