"""A session begins."""

from ..pool import HardwareFacts, Pool
from ..problem import Problem, ProblemFacts
from ..timing import Interval
from .author import AuthorShare
from .base import Event
from .origin import Origin
from .role import RoleModel
from .seed import SeedKernel
from .skill import Skill


class SessionOpened(Event, frozen=True, kw_only=True, tag="session.opened.v1"):
    """A user asked for a search. Everything a replay needs to know is in here."""

    problem: Problem
    facts: ProblemFacts
    """What problem validation found; capture included."""
    pool: Pool
    hardware: HardwareFacts
    budget: int
    """Candidates to spend, at least 1."""
    seed: int
    """Of the planner's random generator."""
    policy: str = "greedy"
    policy_options: dict[str, int | float | str] = {}
    minutes: float | None = None
    """Wall-clock budget; a timer publishes StopRequested when it is spent."""
    reserve: float = 0.0
    """Minutes before the end of :attr:`minutes` at which nothing new is planned, so that the best can be confirmed; at
    the end the session closes with what it has. Older sessions (0) confirmed beyond it, for as long as that took."""
    idle: float | None = None
    """Minutes after which a session ends that waits for nobody but outside authors, of whom none holds a task. None:
    never, as older sessions."""
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
    origin: Origin | None = None
    """Set on a fork."""
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
    failures_alike: int = 0  # so many syntheses fail alike in a row when it stops; older (0) went on, counting them
    hopeless_below: float = 0.0
    """A correct candidate whose interval ends below this speedup is not timed again in the end; and a search
    out of minutes confirms its best without waiting for what is under way. Older (0) timed all again, and waited."""
    cautious: bool = False
    """Whether a speedup that is too noisy (:attr:`.Interval.is_noise`) counts as its interval's low end, and diagnoses
    say that it is, and name limits in words; counts of more cores than there are count as none."""
    heeds_files: bool = False
    """Whether diagnoses and answers heed the file at hand: page faults of every new output call for no advice, look-ups
    are advised where the problem has some, a file without a config is another source beside its parent, and one whose
    time is too noisy to tell may be handed in again. Older sessions did none of it."""
    awaits_hand_ins: bool = False
    """Whether it closes only when no outside author holds a task and every file that was handed in is judged, unless
    its time is over or it is interrupted; tasks of nobody are withdrawn once its aim is reached. Where outside authors
    have a share, nodes of others are no sign of a stall. Older sessions closed at once, and counted all."""
    closer_diagnoses: bool = False
    """Whether a share of the roofline above 1 ends no search and calls for no advice, since the floor counts more than
    a kernel must do; nor do cores that a candidate left to others who were at work. Advice on wrong gradients says what
    to do; a sentence with two speedups names both baselines where they differ, and the closing one says why. Skills
    read no effect from a speedup that is too noisy, and count no node without a candidate."""
    trusts_finalists: bool = False
    """Whether a finalist's timing alone makes a win and reaches an aim (target, floor), the next best takes the place
    of a refuted one, one undecided is timed again before others, and texts name options and what was timed once."""
    awaits_verdicts: bool = False
    """Whether a search of few candidates improves none before its drafts are judged, the last ones deepen the best, and
    one that is out of minutes waits for what is under way until it has a candidate that may win."""
    compares_late: bool = False  # its best is timed with a baseline that joined since, if none has hope beside that
    passes_over_slower: bool = False  # for an untimed finalist, who is surely slower in ordinary processes: as its best
    heeds_authors: bool = False  # says who gets no more nodes; prompts name its own baseline. Older: neither
    trial_nodes: int = 0  # most under way until one has a candidate: for an author that costs money. 0: no bound
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
