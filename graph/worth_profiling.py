"""Which candidates are worth a look into: profilers take seconds, timing takes one.

A pure choice from recorded facts: the graph as of the event that is answered, and the report that goes into the answer.
"""

from collections.abc import Sequence

from ..schemas import DeviceProfile, ProfileReport, SessionOpened, Verdict
from .nodes import NodeRecord
from .session_graph import SearchGraph

SHARE = 0.1
"""Looking may take so much of the time that timing took: of 44 candidates a minute by timing alone 40 are left."""

TYPICAL_S = 10.0
"""What a look takes, while none has been seen: two profilers load the candidate and call it, one after the other."""


def uses_profilers(opened: SessionOpened) -> bool:
    """Whether a session looks into candidates at all."""
    return bool(opened.policy_options.get("looks", 1))


def worth_a_look(graph: SearchGraph, node: str, report: ProfileReport, *, finalist: bool) -> bool:
    """Whether the candidate of ``node``, just timed with ``report``, should be looked into.

    A finalist if it is the best so far: no other was faster when it was confirmed. Any other only if it can teach the
    search something: a draft, or one that is surely faster than its parent; and only while looking has taken at most
    :data:`SHARE` of the time that timing has. The first one is free. Nothing is looked into twice. Candidates that were
    verified before this one and are not timed yet, as far as ``graph`` knows, may be looked into first: what that would
    cost counts as taken. The session's policy option ``looks`` switches all of it off.
    """
    if report.verdict is not Verdict.correct or report.timing is None:
        return False
    if graph.opened is not None and not uses_profilers(graph.opened):
        return False
    record = graph.nodes.get(node, NodeRecord(node))
    if seen(record) is not None:
        return False
    if finalist:
        against = graph.opened.against if graph.opened is not None else "best"
        confirmations = (other.confirmation for other in graph.own() if other.name != node)
        return all(_median(report, against) >= _median(confirmation, against) for confirmation in confirmations)
    return _affordable(graph, node, report) and _promising(graph, record, report)


def seen(record: NodeRecord) -> DeviceProfile | None:
    """What profilers saw of a node's candidate, in whichever of its runs they looked."""
    reports = (record.confirmation, record.profile_report)
    return next((report.device for report in reports if report is not None and report.device is not None), None)


def _affordable(graph: SearchGraph, node: str, report: ProfileReport) -> bool:
    timed = [report, *(record.profile_report for record in graph.own() if record.profile_report is not None)]
    looks = [profile.device.seconds for profile in timed if profile.device is not None]
    promised = _promised(graph, node, looks, len(timed))
    return sum(looks) + promised <= SHARE * sum(profile.seconds for profile in timed)


def _promised(graph: SearchGraph, node: str, looks: Sequence[float], timed: int) -> float:
    """Seconds to be expected of looks into those that come before ``node``, at the price of the dearest one so far."""
    waiting = [record for record in graph.own() if record.name != node and _is_waiting(record)]
    drafts = sum(not _fitness_of_parent(graph, record) for record in waiting)
    # Whether a child is surely faster is not known before it is timed; how many of them were is.
    share = len(looks) / timed if looks else 1.0
    return max(looks, default=TYPICAL_S) * (drafts + share * (len(waiting) - drafts))


def _is_waiting(record: NodeRecord) -> bool:
    verified = record.verify_report
    return verified is not None and verified.verdict is Verdict.correct and record.profile_report is None


def _promising(graph: SearchGraph, record: NodeRecord, report: ProfileReport) -> bool:
    fitness = _fitness_of_parent(graph, record)
    assert report.timing is not None
    against = report.timing.baseline(graph.opened.against if graph.opened is not None else "best")
    return not fitness or report.timing.speedup[against].low > fitness


def _median(report: ProfileReport | None, against: str) -> float:
    """Speedup over the session's baseline; 0 where it was not timed."""
    timing = report.timing if report is not None else None
    return timing.speedup[timing.baseline(against)].median if timing is not None else 0.0


def _fitness_of_parent(graph: SearchGraph, record: NodeRecord) -> float:
    """0 for a draft, and for a child of one that was not right."""
    parent = graph.nodes.get(record.parent)
    return parent.fitness if parent is not None else 0.0
