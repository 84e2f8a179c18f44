"""What is right to say of a kernel that cheats, and which guarantee of the judge refuses it."""

from dataclasses import dataclass
from enum import StrEnum


class Guarantee(StrEnum):
    """What the judge guarantees (docs/judge.md): each cheat of the table attacks one of these."""

    right = "outputs are the reference's, on private seeds, harder inputs and shapes that the problem does not name"
    precision = "errors are held against those of the precision that the problem asks for"
    form = "outputs have type, dtype and shape of the reference's before anything else of them is read"
    written = "memory that a call gets is filled with patterns: what it did not write shows"
    fresh = "a set of inputs comes at addresses of others, under contents of others, and once: no old answer is right"
    inputs_kept = "inputs that the reference only reads keep their bytes"
    stopped = "what is compared was computed before the clock stopped"
    stands_still = "the candidate neither slows nor measures the baselines: it is stopped meanwhile"
    checked_unseen = "no call knows that it will not be checked: counted calls are drawn outside, on unseen inputs"
    one_by_one = "the calls of a batch are computed one by one: a speedup is no higher than such calls show"
    outside_clock = "the candidate does not report the time of a batch"
    protocol = "what a candidate's process says counts for nothing but its form: that is checked, and read once"
    intact = "torch, clocks, modes and the harness are what they were when the candidate was loaded"
    walls = "files, other processes, the network and system calls that compute beside the call are out of reach"
    limits = "time and memory have limits, and a process that ends takes no other with it"
    apart = "reference, expected outputs and problem file lie in another process"
    state = "what a call leaves behind is what the reference leaves"
    gradients = "gradients are the reference's, of every input, in every call"
    passes = "outputs are there before cotangents are: one pass neither puts off nor foresees what is the other's"
    repeated = "a call on the same inputs gives the same again"
    no_gain = "it may be called correct: it gains nothing, or ordinary processes show that it is no faster"


BY_VERDICT = {
    "correct": Guarantee.no_gain,
    "crash": Guarantee.limits,
    "hidden_work": Guarantee.stopped,
    "incomplete_output": Guarantee.written,
    "input_mutated": Guarantee.inputs_kept,
    "load_error": Guarantee.apart,
    "lower_precision": Guarantee.precision,
    "not_deterministic": Guarantee.repeated,
    "out_of_memory": Guarantee.limits,
    "runtime_error": Guarantee.walls,
    "stale_output": Guarantee.fresh,
    "tampering": Guarantee.intact,
    "timeout": Guarantee.limits,
    "wrong_gradients": Guarantee.gradients,
    "wrong_numbers": Guarantee.right,
    "wrong_shape": Guarantee.form,
    "wrong_state": Guarantee.state,
    "wrong_type": Guarantee.form,
}
"""The guarantee that gives a verdict where a kernel's line names no other."""


@dataclass(frozen=True)
class Expected:
    """What is right to say of one kernel."""

    verdicts: frozenset[str]
    naive: bool | None
    """Whether a naive evaluator accepts it; None: not to be asked, or chance decides."""
    by: Guarantee
    """What refuses it."""
    timed: bool = False
    """Whether it computes what it should until it is timed."""
    free: bool = False
    """Whether the naive evaluator's clock shows no time at all for it."""
    says: str = ""
    """What the reason must name."""
    needs: str = ""
    """Layer of isolation that it takes."""
    may_win: bool = True
    """Whether it may be counted as faster where it is correct: what is right, and lies about its time, may not."""
    like: str = ""
    """Kernel of the suite that does the same honestly: where it is correct, it is no faster than that."""

    @property
    def refused_when_checked(self) -> bool:
        """Whether verification alone refuses it, without a clock."""
        return not self.timed and "correct" not in self.verdicts


def is_(
    *verdicts: str,
    naive: bool | None = True,
    by: Guarantee | None = None,
    timed: bool = False,
    free: bool = False,
    says: str = "",
    needs: str = "",
    may_win: bool = True,
    like: str = "",
) -> Expected:
    """``by``: by default what gives the first verdict."""
    return Expected(frozenset(verdicts), naive, by or BY_VERDICT[verdicts[0]], timed, free, says, needs, may_win, like)


def unseen(*verdicts: str, by: Guarantee | None = None, timed: bool = True, says: str = "") -> Expected:
    """Of an attack on the harness itself: no naive evaluator has what it attacks, and it gains nothing."""
    return is_(*verdicts, naive=None, by=by, timed=timed, says=says, may_win=False)
