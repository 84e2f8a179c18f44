"""Baselines that join: candidates that were timed before are ranked beside those that are compared with them. Pure."""

from ...schemas import NodeDiagnosed
from .state import PlannerState


def rank_alike(state: PlannerState, event: NodeDiagnosed) -> None:
    """Rank those that were timed while more baselines were pending as if they had been compared as in ``event``.

    Five times as fast as eager may be as fast as torch.compile: without that, whoever was timed first would stay the
    best. The ratio of the two baselines follows from the one candidate that was compared with both.
    """
    if event.speedup is None or not event.speedups:
        return
    before = [node for node in state.own() if set(node.pending) > set(event.pending)]
    for node in before:
        ratio = event.speedup.median / event.speedups.get(node.against, event.speedup.median)
        node.pending = event.pending
        node.joined_ratio *= ratio
        node.fitness *= ratio
        state.judged(node)
    if before:
        state.best_seen = max((node.fitness for node in state.own() if node.is_correct), default=0.0)
