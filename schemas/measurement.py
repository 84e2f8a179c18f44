"""What compiler, verifier and profiler report of a candidate."""

from collections.abc import Iterable

from msgspec.structs import replace

from .base import Schema
from .device_profile import DeviceProfile
from .timing import Roofline, Timing
from .verdict import CaseResult, Evidence, Verdict


class Counters(Schema, frozen=True, kw_only=True):
    """Hardware counters over the timed calls, where the machine permits them."""

    source: str
    """``perf`` or another profiler's name."""

    values: dict[str, float]
    """Counts per call: ``instructions``, ``cycles``, ``cache_misses``, …"""


class Artifact(Schema, frozen=True, kw_only=True):
    """Something large, stored by its content."""

    sha256: str
    size: int
    """Bytes."""
    media_type: str
    name: str = ""
    """File name a user would see."""


class Diagnostic(Schema, frozen=True, kw_only=True):
    """One message of a compiler."""

    severity: str
    """``error`` or ``warning``."""

    message: str
    line: int = 0
    """Line in the native source, from 1; 0 if unknown."""

    column: int = 0


class KernelResources(Schema, frozen=True, kw_only=True):
    """What one compiled kernel of an accelerator takes."""

    name: str

    registers: int
    """Of one thread."""

    spill_bytes: int
    """Local memory of one thread, bytes: registers that did not fit, and arrays indexed at run time."""

    shared_bytes: int
    """Shared memory of one block, bytes; what a launch of CUDA C++ asks for beside it is not in it."""

    warps: int = 0
    """Warps of a block; 0 where the launch decides."""

    stages: int = 0
    """Depth of the software pipeline; 0 where there is none."""


class CompileReport(Schema, frozen=True, kw_only=True):
    """What a language's toolchain made of a candidate."""

    ok: bool
    language: str
    compiler: str
    """Name and version; empty if nothing had to be compiled."""
    flags: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    """End of the compiler's output."""
    seconds: float = 0.0
    cached: bool = False
    """Whether the artifact was there already."""
    kernels: tuple[KernelResources, ...] = ()
    """Resources of each kernel of an accelerator, in the order of the candidate's launches."""
    isolation: str = ""
    """Layers around the compiler, as ``process+netns+pidns+toolroot``; empty if nothing had to be compiled."""

    @property
    def is_late(self) -> bool:
        """Whether kernels may still have to be compiled in the process that calls them, which then starts programs."""
        return self.language == "triton" and not self.names(".triton")

    def names(self, suffix: str) -> tuple[str, ...]:
        """Names of the artifacts that end with ``suffix``."""
        return tuple(artifact.name for artifact in self.artifacts if artifact.name.endswith(suffix))


FROM_SEED = "seed"
"""How a module took its weights that takes nobody's."""

CONTIGUOUS, FINITE = "contiguous", "finite"
"""What inputs a candidate may be limited to."""
_BEYOND = {
    CONTIGUOUS: "as a drop-in it leaves others to the reference",
    FINITE: "it may answer otherwise to NaN and infinities, as a drop-in as well",
}


def limits_text(limits: Iterable[str]) -> str:
    """Where alone a candidate is right, and what becomes of other inputs."""
    return "; ".join(
        f"right only for {limit} inputs: {_BEYOND.get(limit, 'it is wrong on others')}" for limit in limits
    )


class VerifyReport(Schema, frozen=True, kw_only=True):
    """What the verifier's harness found."""

    verdict: Verdict
    isolation: str
    """Level in force, as ``process+rlimits+netns``."""
    cases: tuple[CaseResult, ...] = ()
    evidence: Evidence | None = None
    seconds: float = 0.0
    declined: tuple[str, ...] = ()
    """What it raised at made-up shapes, each time with the shape: refusing them is no fault."""
    gradients: str = ""
    """Who differentiates it: ``own`` (its gradients were checked), ``reference`` (it refuses or gives no graph, so the
    drop-in recomputes the reference), or empty where the problem has no gradients or the event is older."""
    weights: str = ""
    """How a module took the reference's weights: ``names``; ``order`` (other names, the same shapes in the same order);
    ``seed`` (neither: it has what it made itself under the reference's seed). Empty for functions and in older
    events."""
    renamed: dict[str, str] = {}
    """With ``order``: the module's names by the reference's, where they differ."""
    limits: tuple[str, ...] = ()
    """On which inputs alone it is right, of :data:`CONTIGUOUS` and :data:`FINITE` (:func:`limits_text`). Only of
    problems that name one call, or that set ``finite_inputs``; empty in older events."""


class ContractProperty(Schema, frozen=True, kw_only=True):
    """Whether a finished file behaves like its reference in one way (docs/dropin.md)."""

    name: str
    ok: bool = True
    """Whether it does, or nothing is asked of it."""
    applies: bool = True
    """Whether the reference does it itself."""
    is_essential: bool = False
    """Whether a file without it is no win: numbers, state and gradients."""
    detail: str = ""
    """What differs, or why nothing is asked; one sentence."""


class ProfileReport(Schema, frozen=True, kw_only=True):
    """What the profiler's harness measured. ``timing`` is None unless the verdict is correct."""

    verdict: Verdict
    isolation: str
    timing: Timing | None = None
    ordinary: Timing | None = None
    """The finished drop-in against the baselines in ordinary processes; of finalists and evaluations only. On an
    accelerator that is the call, host overhead included, and :attr:`timing` is the device. Older events have none."""
    ordinary_missing: str = ""
    """Why ``ordinary`` could not be measured although it was wanted; one sentence."""
    contract: tuple[ContractProperty, ...] = ()
    """Whether the finished drop-in behaves like its reference; of what is faster in ordinary processes, as well."""
    roofline: Roofline | None = None
    counters: Counters | None = None
    device: DeviceProfile | None = None
    """What the accelerator's profilers saw."""
    evidence: Evidence | None = None
    seconds: float = 0.0
    """That it took, without waiting for others to leave the hardware."""

    def at_first_shape(self) -> "ProfileReport":
        """The same for the first timed shape alone: counters and profilers speak of that one."""
        if self.timing is None or not self.timing.shapes:
            return self
        first = self.timing.shapes[0]
        return replace(self, timing=first.timing, roofline=first.roofline)
