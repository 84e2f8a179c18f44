"""What a synthesizer backend is asked and what it answers: draft, repair and improve are one operation.

The generator is one backend, a language model another. A backend is found by its name in :data:`BACKENDS`; its module
is imported only when it is used, because a model's libraries take seconds to import.
"""

from importlib import import_module
from typing import NamedTuple

from ...schemas import (
    OUTSIDE,
    CandidateProposed,
    Config,
    HardwareFacts,
    InputError,
    Interval,
    KnowledgeRetrieved,
    ModelCalled,
    NodeDiagnosed,
    NodePlanned,
    Pool,
    Problem,
    ProblemFacts,
    RoleDecided,
    Schema,
    Skill,
    SynthesisFailed,
    TaskOpened,
    ToolCalled,
    Verdict,
)


class Attempt(Schema, frozen=True, kw_only=True):
    """A node that was made before, with everything that is known of it by now."""

    node: str
    """Its name in the search graph."""
    source: str = ""
    """The whole candidate file; empty if its synthesis failed."""
    recipe: Config = {}
    """Tunable settings, where its backend has tunables."""
    rationale: str = ""
    """Why it was thought to be faster."""
    verdict: Verdict | None = None
    """What became of it; None while it is still under way."""
    fitness: float = 0.0
    """What its speedup against the best baseline counts as; 0 if wrong or unknown."""
    too_noisy: Interval | None = None
    """Its speedup where nobody can tell it: :attr:`fitness` is the low end then."""
    diagnosis: NodeDiagnosed | None = None
    """The analyst's word on it; None while it is under way."""
    diagnostics: str = ""
    """The compiler's messages, one a line."""
    counters: dict[str, float] = {}
    """Raw hardware counters of a call, by name, where the profiler read any."""
    evidence: str = ""
    """What the verifier or the profiler saw: message, values, end of the candidate's output."""


class Request(Schema, frozen=True, kw_only=True):
    """Everything a backend may know. The answer must depend on nothing else (and, for a model, on its completions)."""

    problem: Problem
    facts: ProblemFacts
    pool: Pool
    hardware: HardwareFacts
    plan: NodePlanned
    node: str
    """Name of the node to be made."""
    language: str
    """Language of the native code: ``cpp``."""
    lineage: tuple[Attempt, ...] = ()
    """The parent and its ancestors, nearest first; empty for a draft."""
    second: Attempt | None = None
    """A second parent, whose ideas are to be joined to the first's."""
    siblings: tuple[Attempt, ...] = ()
    """The parent's other children, oldest first."""
    tried: tuple[Attempt, ...] = ()
    """Everything in the session, oldest first."""
    skills: tuple[Skill, ...] = ()
    """What earlier sessions taught on like problems, nearest first."""
    model: str = ""
    """Model of a language-model backend; empty for its default, and for the others."""
    base_url: str = ""
    """Address of the model's server, where the session names one."""
    against: str = "best"
    """What its speedup counts against, for a model to know: ``best``, ``compile`` or ``eager``."""
    given: tuple[str, ...] = ()
    """Candidate files that the user handed in; only the backend ``given`` looks at them."""
    asks_by_problem: bool = False
    """:attr:`.SessionOpened.asks_by_problem`."""
    tells_bandwidths: bool = False
    """:attr:`.SessionOpened.tells_bandwidths`."""
    tells_contract: bool = False
    """:attr:`.SessionOpened.tells_contract`."""
    grows_with_context: bool = False
    """:attr:`.SessionOpened.grows_with_context`."""


Record = ModelCalled | ToolCalled | KnowledgeRetrieved | RoleDecided
"""What a backend did on its way to an answer."""


class Answer(Schema, frozen=True, kw_only=True):
    """Exactly one of ``candidate``, ``failed`` and ``task`` is set."""

    candidate: CandidateProposed | None = None
    failed: SynthesisFailed | None = None
    task: TaskOpened | None = None
    """The plan waits for an outside author: its candidate comes later, in answer to another event."""
    records: tuple[Record, ...] = ()
    """Every request to a model, call of a tool and look-up that led to this, in order, failures included."""

    @property
    def calls(self) -> tuple[ModelCalled, ...]:
        """The requests among them."""
        return tuple(record for record in self.records if isinstance(record, ModelCalled))

    def __post_init__(self) -> None:
        if sum(answer is not None for answer in (self.candidate, self.failed, self.task)) != 1:
            raise ValueError("an answer is either a candidate, a failure or a task")


class Backend:
    """Turns a request into a candidate."""

    name: str
    """Key in :data:`BACKENDS`; travels in the events."""

    def check(self, model: str = "", base_url: str = "") -> None:
        """Find out, before a session opens, whether the backend can work at all. Cheap: no import, no network.

        ``model`` and ``base_url`` are those of the session, and mean nothing to a backend that asks no model.

        Raises:
            InputError: it cannot (no key, no model); the sentence says what to do. Most lack nothing.
        """

    async def synthesize(self, request: Request) -> Answer:
        """Answer a request. Whatever goes wrong outside is an answer with ``failed``, not an exception."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release connections. The backend is not used afterwards."""


GIVEN = "given"
"""Hands out files that were given: what judges those names it, nobody else has a use for it."""


class BackendEntry(NamedTuple):
    """Where a backend is, without importing it."""

    module: str
    """Relative to this package."""
    attribute: str
    """Its class."""
    asks_a_model: bool = False
    """Whether a candidate takes minutes or money: then several are written at once, and nothing is asked in vain."""
    takes_model: bool = False
    """Whether the options ``--model`` and ``--base-url`` are for it."""


BACKENDS: dict[str, BackendEntry] = {
    "playbook": BackendEntry(".generator", "GeneratorBackend"),
    GIVEN: BackendEntry(".given", "GivenBackend"),
    "anthropic": BackendEntry(".anthropic", "AnthropicBackend", asks_a_model=True, takes_model=True),
    "openai": BackendEntry(".openai", "OpenAIBackend", asks_a_model=True, takes_model=True),
    OUTSIDE: BackendEntry(".outside", "OutsideBackend"),
}
"""Every backend, by name."""
BACKEND_NAMES = tuple(name for name in BACKENDS if name != GIVEN)
"""Those that a search may name."""


def open_backend(name: str) -> Backend:
    """Import the backend ``name`` and make one.

    Raises:
        InputError: no backend has that name.
    """
    if name not in BACKENDS:
        raise InputError(f"unknown author {name!r}: choose one of {', '.join(BACKEND_NAMES)}")
    entry = BACKENDS[name]
    kind = getattr(import_module(entry.module, __package__), entry.attribute)
    backend: Backend = kind()
    return backend
