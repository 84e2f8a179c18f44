"""How much memory all processes of a problem take on its device: what a session and a validation reserve."""

from ...schemas import Accelerator, ProblemFacts
from ..machine.reservations import MARGIN
from .inputs.graph_sizes import largest_live_bytes
from .inputs.sizes import bytes_of, is_large
from .validation_process import largest_call, memory_needed, memory_needed_on_device

PROCESS_BYTES = 256 << 20
"""Of main memory that a process with torch in it takes beside its tensors."""
CONTEXT_BYTES = 640 << 20
"""Of a device's memory that a process with a CUDA context, its libraries and their workspaces takes."""
PROCESSES = 4
"""On a processor: fork server, reference, baselines, candidate."""
CONTEXTS = 8
"""On a device: reference, baselines, four candidates, two profilers; or those of ordinary processes."""
COPIES = 5
"""Of weights and intermediates: reference, its float64 (two), baselines, candidate."""
WEIGHTS = 2
"""Of weights in each process: those in use, and what they began as."""
CALLS_OF_TIMED = 6
"""So many times what a call takes beside weights has a process whose calls are recorded: 14 to 20 GiB of SqueezeNet's,
whose call takes 3 GiB (H100). With three here, three sessions that had reserved 82 GiB took 125 (H200)."""
CALLS_ON_DEVICE = 3 + 2 * CALLS_OF_TIMED
"""Of what a call takes on a device beside weights: reference and its float64 (three), baselines and a candidate; or
those that are timed in ordinary processes, which record nothing."""
LARGE_CALLS_ON_DEVICE = 8
"""The same where one candidate is timed at a time, call by call."""
WEIGHTS_ON_DEVICE = WEIGHTS * (2 + 1 + 4)
"""Reference and its float64, baselines, four candidates."""
SHARE_OF_FINALIST = 0.25
"""Of a device's memory: so much may the processes of a finalist take that are prepared together."""
SHARES_OF_VALIDATION = (0.125, 0.25, 0.5)
"""Of a device's memory: what a validation reserves, since nothing is known of the problem's size before; the next one
where one was too little. Most networks take less than the first. ReLU of 6.4 GB takes eight times that, 52 GB (counted
at a 50th of its size): half of an H200 holds it."""
SHARE = 0.95
"""Of a device's memory: the driver keeps some for itself."""


def capacity_of(host_bytes: int, accelerator: Accelerator | None) -> int:
    """Bytes that sessions share: the device's memory, or main memory of a pool without one."""
    return host_bytes if accelerator is None else int(accelerator.memory_bytes * SHARE)


def demand_of(facts: ProblemFacts, accelerator: Accelerator | None) -> int:
    """Bytes that a session of the problem reserves."""
    weights = weight_bytes(facts)
    if accelerator is not None and facts.peak_bytes:
        calls = LARGE_CALLS_ON_DEVICE if is_large(*largest_call(facts)) else CALLS_ON_DEVICE
        beside = WEIGHTS_ON_DEVICE * weights + calls * call_bytes(facts)
        return CONTEXTS * CONTEXT_BYTES + memory_needed_on_device(facts)[0] + beside
    beside = COPIES * (weights + (largest_live_bytes(facts.graph) if facts.graph else 0))
    if accelerator is None:
        return memory_needed(facts)[1] + beside + PROCESSES * PROCESS_BYTES
    return memory_needed_on_device(facts)[0] + beside + CONTEXTS * CONTEXT_BYTES


def demand_after_shortage(demand: int, peak: int | None) -> int:
    """Bytes that a problem reserves for which ``demand`` was too little, and ``peak`` in use when it had all.

    More than before in any case: what was repeated ran alone, other steps run beside each other. Twice as much where
    nobody saw the peak.
    """
    return 2 * demand if peak is None else int(MARGIN * max(demand, peak))


def demand_of_validation_again(needed: int) -> int:
    """Bytes of a device that a validation reserves which said that it takes about ``needed`` for its tensors."""
    return int(MARGIN * needed) + CONTEXT_BYTES


def demands_of_validation(capacity: int) -> list[int]:
    """Bytes of a device that a validation reserves of ``capacity``, the context of its process included.

    One after the other, until it is enough; if none is, it has all.
    """
    least = 2 * CONTEXT_BYTES
    return sorted({max(int(share * capacity), least) for share in SHARES_OF_VALIDATION if least < capacity})


def processes_at_once(facts: ProblemFacts, accelerator: Accelerator) -> int:
    """How many processes of a candidate the device's memory holds beside all the others, at least one."""
    if not facts.peak_bytes:
        return 1
    each = WEIGHTS * weight_bytes(facts) + CALLS_OF_TIMED * call_bytes(facts)
    return max(1, int(SHARE_OF_FINALIST * accelerator.memory_bytes) // max(each, 1))


def weight_bytes(facts: ProblemFacts) -> int:
    """Bytes of the reference's parameters and buffers."""
    return sum(bytes_of(fact.shape, fact.dtype) for fact in facts.parameters.values())


def call_bytes(facts: ProblemFacts) -> int:
    """Bytes that a call was seen to take on an accelerator beside the weights of its process."""
    return max(0, facts.peak_bytes - WEIGHTS * weight_bytes(facts))
