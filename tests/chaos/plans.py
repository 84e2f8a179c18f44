"""What breaks when, made from a seed: the same seed and round give the same plan."""

from collections.abc import Sequence
from random import Random

from kernelswarm.schemas import InputError, Schema

KINDS = {
    "agents": "kill -9 of a process of planner, synthesizer, analyst and distiller",
    "hands": "kill -9 of a process of compiler, verifier and profiler, also in the middle of a candidate",
    "candidate": "kill -9 of a process that runs a candidate, its reference, or forks them",
    "recorder": "kill -9 of the recorder",
    "server": "kill -9 of the NATS server",
    "submitter": "kill -9 of the process that opened the session",
    "outage": "kill -9 of everything at once",
    "restart": "the NATS server is stopped and started in an orderly way",
    "pause": "SIGSTOP of any process, SIGCONT later, often after its work went to another",
    "away": "no recorder for the length of the session",
    "disk": "the recorder's disk is full, and freed again",
    "store": "the server's disk is full, and freed again",
    "duplicate": "an event is stored once more, as after the end of the stream's window for ids",
    "cut": "a connection swallows what the server says, breaks, and stays away for a while",
    "alone": "kill -9 of a search without a cluster, with all it runs; then `kernelswarm resume`",
}
"""What can happen, by name."""

ALONE = "alone"
"""Needs no fleet but a machine of its own, and several times as long: a kind to ask for."""

CANDIDATES = ("right", "wrong", "broken", "crash", "slow")
"""Candidates that a round may hand in; see :mod:`.problem`."""

_LONGEST_S = 5.0


class Injection(Schema, frozen=True, kw_only=True):
    """One thing that breaks."""

    kind: str
    """Of :data:`KINDS`."""
    after: int
    """Events of the session after which it happens."""
    delay_s: float
    """Seconds from that event."""
    for_s: float
    """Seconds until it is mended."""
    draw: int
    """Chooses among victims."""


class RoundPlan(Schema, frozen=True, kw_only=True):
    """One round."""

    seed: int
    number: int
    """From 1."""
    candidates: tuple[str, ...]
    """Of :data:`CANDIDATES`, in the order in which they are handed in."""
    injections: tuple[Injection, ...]

    @property
    def session(self) -> str:
        """Id of the round's session."""
        return f"faults-{self.seed}-{self.number}"


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """``names``, or every kind but :data:`ALONE` if there are none.

    Raises:
        InputError: a name is not one of :data:`KINDS`.
    """
    for name in names:
        if name not in KINDS:
            raise InputError(f"unknown fault {name!r}: choose of {', '.join(KINDS)}")
    return tuple(names) or tuple(kind for kind in KINDS if kind != ALONE)


def plan_round(seed: int, number: int, kinds: Sequence[str]) -> RoundPlan:
    """Round ``number`` of ``seed``: each kind leads in turn, up to two more join it by chance."""
    rng = Random(f"{seed}/{number}")
    leading = kinds[(number - 1) % len(kinds)]
    others = [rng.choice(kinds) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    others = [] if leading == ALONE else [kind for kind in others if kind != ALONE]
    wrong = [rng.choice(CANDIDATES[1:]) for _ in range(rng.randint(2, 3))]
    # A right one is confirmed by a second run, which takes as long as all else.
    candidates = [*wrong, "right"] if rng.random() < 0.25 else wrong
    rng.shuffle(candidates)
    # Every session has more than eight events, so the leading fault is never too late.
    injections = [_injection(rng, leading, most=8), *(_injection(rng, kind, most=16) for kind in others)]
    return RoundPlan(seed=seed, number=number, candidates=tuple(candidates), injections=tuple(injections))


def _injection(rng: Random, kind: str, most: int) -> Injection:
    return Injection(
        kind=kind,
        after=rng.randint(1, most),
        delay_s=round(rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.6))), 3),
        for_s=round(rng.choice((rng.uniform(0, 0.5), rng.uniform(0.5, 2.0), rng.uniform(2.0, _LONGEST_S))), 3),
        draw=rng.getrandbits(31),
    )
