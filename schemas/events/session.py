"""A session begins."""

from ..pool import HardwareFacts, Pool
from ..problem import Problem, ProblemFacts
from ..timing import Interval
from .author import AuthorShare
from .base import Event
from .origin import Origin
from .role import RoleModel
from .seed import SeedKernel
from .session_rules import SessionRules
from .skill import Skill


class SessionOpened(Event, SessionRules, frozen=True, kw_only=True, tag="session.opened.v1"):
    """A user asked for a search. Everything a replay needs to know is in here."""

    problem: Problem
    facts: ProblemFacts
    """What problem validation found; capture included."""
    pool: Pool
    hardware: HardwareFacts
    budget: int
    """Candidates to spend, at least 1."""
    seed: int  # of the planner's random generator
    policy: str = "greedy"
    policy_options: dict[str, int | float | str] = {}
    minutes: float | None = None
    """Wall-clock budget; a timer publishes StopRequested when it is spent."""
    reserve: float = 0.0
    """Minutes before the end of :attr:`minutes` at which nothing new is planned, so that the best can be confirmed; at
    the end the session closes with what it has. Older sessions (0) confirmed beyond it, for as long as that took."""
    idle: float | None = None
    """Minutes after which it ends if it waits for outside authors alone, of whom none holds a task; None: never."""
    target: float | None = None
    """Speedup over the session's baseline at which the search may stop."""
    against: str = "best"
    """What a win is measured against: ``best`` (of all baselines), ``compile`` or ``eager``. The best counts as well
    where the named one could not be timed."""
    measure: str = "device"
    """Which of the two numbers of an accelerator a win is: its own time (``device``), or the ``call``, host overhead
    included. Of no meaning on a processor. Older sessions went by the device."""
    confirmations: int = 1
    """How often a finalist is timed, at most, while its interval leaves open whether it is a win. Older sessions timed
    it once."""
    synthesizer: str = "playbook"
    """Backend that plans go to; of several, ``backend:share`` with commas between them, as :attr:`authors` has them."""
    model: str = ""
    """Model of a language-model backend, or ``backend=model`` with commas between them; empty for the generator."""
    authors: tuple[AuthorShare, ...] = ()
    """Who writes the candidates, in the order in which ties are decided. Older sessions do not say so: then
    :attr:`synthesizer` is the one author."""
    roles: tuple[RoleModel, ...] = ()
    """Roles that ask a model; all others, and those of older sessions, go by their rules."""
    max_cost: float | None = None
    """US dollars that models may cost; a request that could pass it is not sent. None: no limit."""
    max_tokens: int | None = None
    """Tokens of requests and answers that models may use, likewise."""
    base_url: str = ""
    """Address of a model's server that the user named, without credentials; empty for none."""
    language: str = "cpp"
    origin: Origin | None = None  # set on a fork
    seeds: tuple[str, ...] = ()
    """Sessions whose kernels seed this search."""
    seed_kernels: tuple[SeedKernel, ...] = ()
    """Their kernels, whole: the first nodes measure them here, and replay needs no log."""
    skills: tuple[Skill, ...] = ()
    """What earlier sessions on like problems taught, nearest first: retrieved once, so that replay needs no log."""
    candidates: tuple[str, ...] = ()
    """Candidate files handed in by the user, for the backend ``given``: each is judged once."""
    evaluation: bool = False
    """Whether it only judges one of ``candidates``: then it teaches no skill, as older evaluations did."""
    spent_s: float = 0.0  # of its minutes that were over when it was opened; older sessions do not say so
    version: str = ""  # of kernelswarm, that opened it

    def worth(self, speedup: Interval) -> float:
        """What a speedup counts as where candidates are ranked."""
        return speedup.cautious if self.cautious else speedup.median

    @property
    def is_on_processor(self) -> bool:
        """Whether candidates run on a processor: device and call are one there."""
        return self.pool.platform == "cpu"

    @property
    def counts_device_alone(self) -> bool:
        """Whether the judge's time of an accelerator makes a win, whatever ordinary processes say."""
        return not self.is_on_processor and self.measure != "call"
