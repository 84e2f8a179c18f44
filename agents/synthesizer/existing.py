"""Kernels that exist already, handed on as they are: seeds, and what a fork goes on from. No backend is asked."""

from ...graph.session_graph import SearchGraph
from ...schemas import CandidateProposed, NodePlanned, SeedKernel, SessionOpened, SynthesisFailed


def existing(graph: SearchGraph, opened: SessionOpened, plan: NodePlanned) -> CandidateProposed | SynthesisFailed:
    """The kernel that ``plan`` wants measured again; a failure if the history does not hold it. Pure."""
    if plan.seed:
        if plan.seed <= len(opened.seed_kernels):
            return _seed(opened.seed_kernels[plan.seed - 1])
        return SynthesisFailed(backend=plan.synthesizer, reason=f"the session was opened without a seed {plan.seed}")
    record = graph.nodes.get(plan.parent)
    if record is None or record.candidate is None:
        return SynthesisFailed(backend=plan.synthesizer, reason=f"node {plan.parent} has no candidate to measure again")
    return _as_it_is(record.candidate, f"{record.name} of {record.session} as it is, measured here", (record.name,))


def _seed(kernel: SeedKernel) -> CandidateProposed:
    how = "its settings, written anew for this problem" if kernel.adapted else "as it is"
    return _as_it_is(kernel, f"seed: {kernel.node} of {kernel.session}, {kernel.speedup:.2f}x there; {how}")


def _as_it_is(
    kernel: CandidateProposed | SeedKernel, rationale: str, parents: tuple[str, ...] = ()
) -> CandidateProposed:
    return CandidateProposed(
        source=kernel.source,
        sha256=kernel.sha256,
        language=kernel.language,
        backend=kernel.backend,
        rationale=rationale,
        recipe=kernel.recipe,
        parents=parents,
    )
