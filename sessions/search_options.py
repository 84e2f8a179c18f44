"""The options of a search, spelled once: the Python API, the command line and the benchmarks take them from here."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar, get_type_hints

from ..agents.planner.policies import POLICIES
from ..agents.synthesizer.authors import AUTHOR_NAMES, parse_authors
from ..agents.synthesizer.backend import BACKENDS, GIVEN
from ..agents.synthesizer.role_models import parse_role_models
from ..schemas import GENERATOR, AuthorShare, InputError, Pool, RoleModel, near_miss, user_name

T = TypeVar("T")

AGAINST = ("best", "compile", "eager")
"""What a win may be measured against."""

MEASURES = ("device", "call")
"""Which of an accelerator's two numbers a win may be; on a processor they are one."""

CONFIRMATIONS = 3
"""How often a finalist is timed, at most, while its interval leaves open whether it is a win."""

INJECT = 0.2
"""Share of the expansions that a seed takes part in: some, because reuse also anchors a search (docs/seeding.md)."""


def _option(default: T, help: str) -> T:
    """A field that users choose; the one line of ``help`` serves every way in."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class SearchOptions:
    """How to search. Every field travels in the session's first event."""

    budget: int = _option(40, "Candidates to spend.")
    minutes: float | None = _option(
        None,
        "Minutes that all of it may take. The last of them confirm finalists: 40 % of a short search, one minute of "
        "five, a tenth of a long one.",
    )
    idle: float = _option(
        30.0,
        "Minutes after which a search confirms what it has that waits for outside authors alone, once they have given "
        "back or handed in all that they held; 0: it waits on.",
    )
    target: float | None = _option(None, "Stop at this speedup over what wins are measured against.")
    against: str = _option(
        "best", "What a win is measured against: best (of eager, torch.compile and max-autotune), compile or eager."
    )
    """The target and the search's fitness are measured against it as well; one of :data:`AGAINST`."""
    measure: str = _option(
        "device",
        "Which number makes a win on an accelerator: device (its own time), or call (also with the host's overhead, "
        "in an ordinary process). Both are shown; on a processor they are one.",
    )
    ends_planning_only: bool = False
    """Whether ``minutes`` end the planning alone, because whoever searches ends the session in time."""
    confirmations: int = CONFIRMATIONS
    seed: int = _option(0, "Seed of the planner's random choices.")
    policy: str = _option("greedy", f"How the search graph grows: {' or '.join(POLICIES)}.")
    policy_options: dict[str, int | float | str] = field(default_factory=dict)
    synthesizer: str = _option(
        "playbook",
        f"Who writes candidates: {', '.join(AUTHOR_NAMES)}, or several with their shares of the nodes: "
        "generator,anthropic:2.",
    )
    model: str = _option(
        "",
        "Model of an author that asks one; of several: anthropic=NAME,openai=NAME. Beside it roles, as in "
        "analyst=NAME: analyst, planner, distiller, deep_search, context_memory.",
    )
    base_url: str = _option("", "Server of the author openai: vLLM, Ollama, SGLang, whatever speaks its format.")
    max_cost: float | None = _option(None, "US dollars that models may cost: a request that could pass it is not sent.")
    max_tokens: int | None = _option(None, "Tokens that models may use, requests and answers together, likewise.")
    language: str = ""
    """What candidates are written in; empty: what the pool prefers."""
    candidates: tuple[str, ...] = ()
    """Candidate files to judge, for the synthesizer ``given``."""
    seed_from: tuple[str, ...] = _option(
        (),
        "Start from kernels that won before: auto for what is alike in the log, or sessions with commas between them.",
    )
    inject: float = _option(INJECT, "Share of the expansions that a seed takes part in, where there are seeds.")

    def reserve(self, shapes: int) -> float:
        """Minutes, the last ones, in which finalists are confirmed and nothing new is planned; ``shapes`` are timed."""
        if self.minutes is None or self.ends_planning_only:
            return 0.0
        return min(0.4 * self.minutes, max(0.5 * (1 + shapes), 0.1 * self.minutes))

    @property
    def is_evaluation(self) -> bool:
        """Whether it only judges one file that somebody handed in: of several there would be something to learn."""
        return self.synthesizer == GIVEN and len(self.candidates) == 1

    @property
    def authors(self) -> tuple[AuthorShare, ...]:
        """Who writes candidates.

        Raises:
            InputError: there is no such author, or a share, a model or an address fits none.
        """
        return parse_authors(self.synthesizer, self.model, self.base_url)

    @property
    def roles(self) -> tuple[RoleModel, ...]:
        """Roles that ask a model.

        Raises:
            InputError: a role is named twice, or without a model.
        """
        return () if self.is_evaluation else parse_role_models(self.model, self.authors, self.base_url)

    def check(self) -> None:
        """Refuse what cannot be searched with.

        Raises:
            InputError: a value is out of range; the sentence names it.
        """
        for name, value in (("budget", self.budget), ("seed", self.seed), ("minutes", self.minutes)):
            if value is not None and not isinstance(value, int | float):
                raise InputError(f"{name} {value!r}: give a number")
        if self.budget < 1:
            raise InputError(f"budget {self.budget}: a search needs at least 1 candidate")
        # The log keeps both as 64 bits; what it cannot hold it would read back as nothing.
        for name, value in (("budget", self.budget), ("seed", self.seed)):
            if not -(2**63) <= value < 2**63:
                raise InputError(f"{name} {value}: give a number that 64 bits hold")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise InputError(f"minutes {self.minutes:g}: give a time above 0, or none for no limit")
        if not 0 <= self.idle < math.inf:
            raise InputError(f"idle {self.idle:g}: give minutes from 0 on; 0 waits for ever")
        if self.target is not None and not 0 < self.target < math.inf:
            raise InputError(f"target {self.target:g}: a speedup is above 0; 2.0 means twice as fast")
        if self.against not in AGAINST:
            meant = near_miss(self.against, AGAINST)
            raise InputError(f"against {self.against!r}: {meant}a win is measured against {', '.join(AGAINST)}")
        if self.measure not in MEASURES:
            meant = near_miss(self.measure, MEASURES)
            raise InputError(
                f"measure {self.measure!r}: {meant}a win on an accelerator is by its {' or its '.join(MEASURES)}"
            )
        if not 0 <= self.inject <= 1:
            raise InputError(f"inject {self.inject:g}: it is a share of the expansions, from 0 to 1")
        if self.max_cost is not None and not 0 < self.max_cost < math.inf:
            raise InputError(f"max cost {self.max_cost:g}: give US dollars above 0, or none for no limit")
        if self.max_tokens is not None and not 0 < self.max_tokens < 2**63:
            raise InputError(f"max tokens {self.max_tokens}: give a number above 0, or none for no limit")
        assert self.authors, "an empty list is refused as bad input"
        assert self.roles is not None, "a role without a model is refused as bad input"
        self._check_limits()
        if self.policy not in POLICIES:
            meant = near_miss(self.policy, POLICIES)
            raise InputError(f"unknown policy {self.policy!r}: {meant}choose one of {', '.join(sorted(POLICIES))}")

    def _check_limits(self) -> None:
        """Refuse a limit that nothing can come near."""
        limits = {"max cost": self.max_cost, "max tokens": self.max_tokens}
        given = " and ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
        if given and not self.roles and not any(BACKENDS[author.name].takes_model for author in self.authors):
            names = ", ".join(user_name(author.name) for author in self.authors)
            raise InputError(
                f"{given}: none of {names} asks a model, and no role does; add --author anthropic or openai, or leave "
                "the limit out"
            )

    def check_pool(self, pool: Pool) -> None:
        """Refuse what cannot be searched with on ``pool``.

        Raises:
            InputError: candidates are not timed there against what a win is to be measured against.
        """
        if self.against != "best" and self.against not in pool.baselines:
            raise InputError(
                f"against {self.against!r}: pool {pool.name} times candidates against {', '.join(pool.baselines)} only"
            )


class AuthorChoices(TypedDict, total=False):
    """Options of :class:`SearchOptions` as users give them, where what a win is does not matter: in benchmarks.

    What is left out, None or empty is as :class:`SearchOptions` has it, or as it was in the session that is forked.
    """

    budget: int | None
    seed: int | None
    author: str
    synthesizer: str
    """Another name of ``author``."""
    model: str
    base_url: str
    max_cost: float | None
    max_tokens: int | None


class ForkChoices(AuthorChoices, total=False):
    """Those of a fork."""

    minutes: float | None
    target: float | None
    against: str
    measure: str
    policy: str


class SearchChoices(ForkChoices, total=False):
    """Those of a new search."""

    seed_from: str | Sequence[str]
    inject: float
    idle: float


HELP: dict[str, str] = {entry.name: entry.metadata["help"] for entry in fields(SearchOptions) if entry.metadata}
"""What each option means, by its name for users."""
HELP |= {"author": HELP["synthesizer"], "synthesizer": "Another name of author."}


def given(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of :class:`SearchOptions` that a user chose.

    Raises:
        TypeError: there is no such option.
    """
    for name in choices:
        if name not in HELP:
            raise TypeError(f"there is no option {name!r}: {near_miss(name, HELP)}there is {', '.join(sorted(HELP))}")
    fields = {name: value for name, value in choices.items() if value not in (None, "", ())}
    fields.pop("author", None)
    if (author := choices.get("author")) is not None:  # an empty one is refused, as any other that is none
        fields.setdefault("synthesizer", author)
    sources = fields.get("seed_from", ())
    names = sources.split(",") if isinstance(sources, str) else sources
    if seeds := tuple(filter(None, (name.strip() for name in names))):
        fields["seed_from"] = seeds
    return fields


def defaults(**changes: Any) -> dict[str, Any]:
    """What each option is in a new search that leaves it out, by its name for users; ``changes`` are others."""
    options = SearchOptions()
    own = {name: getattr(options, name) for name in HELP if name != "author"}
    return {**own, "author": GENERATOR, "synthesizer": "", "seed_from": "", **changes}


def hints_of(kind: type[AuthorChoices]) -> dict[str, Any]:
    """Type of each option of ``kind``, by its name for users."""
    return get_type_hints(kind)


def spell_out(function: Callable[..., Any], options: Sequence[inspect.Parameter], after: str) -> None:
    """Show ``options`` in the signature of a function that takes them as ``**choices``, behind ``after``."""
    own = [entry for entry in inspect.signature(function).parameters.values() if entry.kind is not entry.VAR_KEYWORD]
    place = next(place for place, entry in enumerate(own, 1) if entry.name == after)
    parameters = [*own[:place], *(option.replace(kind=own[place - 1].kind) for option in options), *own[place:]]
    function.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
