"""The planner's decisions."""

from enum import StrEnum

from ..diagnosis import Advice
from .base import Event


class MemoryOperator(StrEnum):
    """What a new node remembers of the graph (KernelEvolve, section 4)."""

    clean_slate = "clean_slate"
    inherit = "inherit"
    """The parent's trajectory."""
    siblings = "siblings"
    """What the parent's other children tried."""
    combine = "combine"
    """Both."""


class Intent(StrEnum):
    """What the universal operator is asked for."""

    draft = "draft"
    improve = "improve"
    repair = "repair"
    remeasure = "remeasure"
    """A kernel that exists, as it is: a seed, or the node that a fork goes on from."""
    dispatch = "dispatch"
    """A file that takes the kernel of another node at each of several timed shapes."""


class NodePlanned(Event, frozen=True, kw_only=True, tag="node.planned.v1"):
    """A node of the search graph is to be made; the envelope's ``node`` names it."""

    parent: str
    """Node it starts from; empty for a draft."""
    intent: Intent
    memory: MemoryOperator
    advice: tuple[Advice, ...] = ()
    """From the parent's diagnosis, as the planner chose it."""
    draw: int = 0
    """Random 63-bit number for the synthesizer, drawn by the planner: the only randomness a backend may use."""
    number: int = 0
    """Position among the session's nodes, from 1."""
    synthesizer: str = "playbook"
    """Backend that is to make it."""
    second: str = ""
    """Second parent, whose ideas are to be joined to the first's; empty for none."""
    seed: int = 0
    """Which of the session's seed kernels is measured, from 1; 0 for none."""
    kernels: dict[str, str] = {}
    """Of a dispatching file: the node whose kernel it takes, by timed shape; :attr:`parent` for all other shapes."""


class ConfirmationPlanned(Event, frozen=True, kw_only=True, tag="node.confirmation_planned.v1"):
    """A finalist is to be timed once more, longer: the best of many noisy measurements is too good to be true."""

    rank: int
    """1 for the best so far."""
    processes: int = 0
    """In how many processes of the candidate; 0: as usual. More where an earlier confirmation decided nothing."""
