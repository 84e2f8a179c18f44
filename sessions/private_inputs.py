"""What may be shown of a verdict: all but the seeds that its inputs were drawn from, since those judge others, too."""

import re
from typing import Any

from msgspec.structs import replace

from ..schemas import CaseResult, Evidence

_SEED = re.compile(r" ?\(seed \d+\)")
"""How messages of the judge name the seed of its inputs."""


def without_seeds(text: str) -> str:
    """``text`` without the seeds that it names."""
    return _SEED.sub("", text)


def without_seed(evidence: Evidence) -> Evidence:
    """``evidence`` without what its inputs can be drawn again from."""
    return replace(evidence, seed=None, message=without_seeds(evidence.message))


def shown_case(case: CaseResult) -> dict[str, Any]:
    """What is shown of an input set that a candidate was compared on."""
    return {name: getattr(case, name) for name in CaseResult.__struct_fields__ if name != "seed"}
