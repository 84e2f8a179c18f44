"""How much one problem is like another: what decides which skills a search sees."""

import math
from collections.abc import Iterable, Sequence

from ..schemas import Pool, ProblemFacts, Schema, Skill

_SHARES = {"operators": 0.45, "platform": 0.25, "dtype": 0.15, "sizes": 0.15}
"""What each part adds to the whole; they sum to 1."""

_LAYOUT = frozenset(
    {"view", "_unsafe_view", "reshape", "expand", "unsqueeze", "squeeze", "permute", "transpose", "t", "slice"}
    | {
        "select",
        "clone",
        "alias",
        "detach",
        "contiguous",
        "sym_size",
        "getitem",
        "_to_copy",
        "lift_fresh_copy",
        "split",
    }
)
"""Operators that only look at memory in another way: shared by problems that have nothing else in common."""

_FAR = math.log(1000.0)
"""Sizes that differ by this factor have nothing in common."""


class ProblemFeatures(Schema, frozen=True, kw_only=True):
    """What of a problem is compared."""

    operators: tuple[str, ...]
    """ATen operators: ``aten.mul.Tensor``."""
    dtype: str
    sizes: tuple[int, ...]
    """Bytes read, bytes written, operations at the main shape."""
    platform: str


def features_of_problem(facts: ProblemFacts, platform: str) -> ProblemFeatures:
    """What is compared of a validated problem."""
    return ProblemFeatures(operators=facts.operators, dtype=facts.dtype, sizes=sizes_of(facts), platform=platform)


def features_of_skill(skill: Skill) -> ProblemFeatures:
    """What is compared of the problem that a skill was learned on."""
    return ProblemFeatures(operators=skill.operators, dtype=skill.dtype, sizes=skill.sizes, platform=skill.platform)


def sizes_of(facts: ProblemFacts) -> tuple[int, ...]:
    """Bytes read, bytes written, operations at the main shape: what a skill keeps as its sizes."""
    return (facts.work.read_bytes, facts.work.write_bytes, facts.work.flops)


def similarity(a: ProblemFeatures, b: ProblemFeatures) -> float:
    """How alike two problems are, in [0, 1], symmetric; 1 for the same.

    0.45 times the Jaccard index of the operators (overloads and mere changes of layout left out; two problems without
    any known operator share nothing), 0.25 for the same platform, 0.15 for the same dtype, and 0.15 times the closeness
    of the sizes: 1 minus the mean of |ln(x / y)| / ln(1000), at least 0.
    """
    parts = {
        "operators": _jaccard(_bare(a.operators), _bare(b.operators)),
        "platform": float(a.platform == b.platform),
        "dtype": float(a.dtype == b.dtype),
        "sizes": closeness(a.sizes, b.sizes),
    }
    return sum(share * parts[name] for name, share in _SHARES.items())


def relevant_skills(
    skills: Iterable[Skill], facts: ProblemFacts, pool: Pool, *, limit: int = 3, at_least: float = 0.7
) -> list[Skill]:
    """The skills worth showing to a search on ``facts`` in ``pool``: nearest first, then the faster, then by id.

    0.7 is out of reach for a problem that shares no operator, whatever else it shares. What was learned on another
    platform is no use here.
    """
    here = features_of_problem(facts, pool.platform)
    own = {skill.id: skill for skill in skills if skill.platform == pool.platform}
    scored = [(similarity(features_of_skill(skill), here), skill) for skill in own.values()]
    near = [item for item in scored if item[0] >= at_least]
    near.sort(key=lambda item: (-round(item[0], 6), -item[1].speedup, item[1].id))
    return [skill for _, skill in near[:limit]]


def _bare(operators: Sequence[str]) -> frozenset[str]:
    """``aten.mul.Tensor`` becomes ``mul``; layout operators go."""
    return frozenset(bare_name(operator) for operator in operators if not is_layout(operator))


def bare_name(operator: str) -> str:
    """``aten.mul.Tensor`` becomes ``mul``."""
    return operator.split(".")[1] if operator.count(".") else operator


def is_layout(operator: str) -> bool:
    """Whether it only looks at memory in another way."""
    return bare_name(operator) in _LAYOUT


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def closeness(a: Sequence[int], b: Sequence[int]) -> float:
    """Of sizes: 1 minus the mean of |ln(x / y)| / ln(1000), at least 0; 0 where they cannot be compared."""
    if not a or len(a) != len(b):
        return 0.0
    # One is added so that a problem without arithmetic can be compared.
    distance = sum(abs(math.log((x + 1) / (y + 1))) for x, y in zip(a, b, strict=True)) / len(a)
    return max(0.0, 1.0 - distance / _FAR)
