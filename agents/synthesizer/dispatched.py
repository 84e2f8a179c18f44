"""A file that takes another node's kernel at each timed shape: made of kernels that exist, no backend is asked."""

import re

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...hardware.dropin.dispatching import dispatching
from ...schemas import CandidateProposed, Intent, NodePlanned, SessionOpened, SynthesisFailed, sha256

BACKEND = Intent.dispatch.value
_OWN_BACKWARD = re.compile(r"^(def|from|import|backward)\b.*\bbackward\b", re.M)
"""A candidate with a function ``backward`` at module level, or something that may be one."""


def dispatched(graph: SearchGraph, opened: SessionOpened, plan: NodePlanned) -> CandidateProposed | SynthesisFailed:
    """The file that ``plan`` wants; a failure if the history does not hold its kernels. Pure."""
    names = tuple(dict.fromkeys((plan.parent, *plan.kernels.values())))
    sources: dict[str, str] = {}
    for name in names:
        record = graph.nodes.get(name)
        if record is None or record.candidate is None:
            return SynthesisFailed(backend=BACKEND, reason=f"node {name} has no candidate to dispatch to")
        sources[name] = record.candidate.source
    try:
        source = dispatching(
            opened.facts,
            sources,
            plan.kernels,
            plan.parent,
            differentiable=all(_is_differentiable(graph.nodes[name], sources[name]) for name in names),
        )
    except ValueError as error:
        return SynthesisFailed(backend=BACKEND, reason=str(error))
    candidate = graph.nodes[plan.parent].candidate
    assert candidate is not None
    chosen = ", ".join(f"{node} at {shape}" for shape, node in plan.kernels.items())
    return CandidateProposed(
        source=source,
        sha256=sha256(source),
        language=candidate.language,
        backend=BACKEND,
        rationale=f"the fastest kernel of each shape: {chosen}; {plan.parent} elsewhere",
        parents=names,
    )


def _is_differentiable(record: NodeRecord, source: str) -> bool:
    """Whether the judge found its gradients right, and they are autograd's: not those of a function of its own."""
    report = record.verify_report
    return report is not None and report.gradients == "own" and not _OWN_BACKWARD.search(source)
