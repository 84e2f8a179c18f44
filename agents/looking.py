"""Which candidates are worth a look into: profilers take seconds, timing takes one.

A pure choice from recorded facts: the graph as of the event that is answered, and the report that goes into the answer.
"""

from ..schemas import DeviceProfile, ProfileReport, Verdict
from .graph import SearchGraph
from .records import NodeRecord

SHARE = 0.1
"""Looking may take so much of the time that timing took: of 44 candidates a minute by timing alone 40 are left."""


def worth_a_look(graph: SearchGraph, node: str, report: ProfileReport, *, finalist: bool) -> bool:
    """Whether the candidate of ``node``, just timed with ``report``, should be looked into.

    A finalist always, unless it was looked into before. Any other only if it can teach the search something: a draft,
    or one that is surely faster than its parent; and only while looking has taken at most :data:`SHARE` of the time
    that timing has. The first one is free.
    """
    if report.verdict is not Verdict.correct or report.timing is None:
        return False
    record = graph.nodes.get(node, NodeRecord(node))
    if seen(record) is not None:
        return False
    return finalist or (_affordable(graph, report) and _promising(graph, record, report))


def seen(record: NodeRecord) -> DeviceProfile | None:
    """What profilers saw of a node's candidate, in whichever of its runs they looked."""
    reports = (record.confirmation, record.profile_report)
    return next((report.device for report in reports if report is not None and report.device is not None), None)


def _affordable(graph: SearchGraph, report: ProfileReport) -> bool:
    reports = [report, *(record.profile_report for record in graph.own() if record.profile_report is not None)]
    looked = sum(one.device.seconds for one in reports if one.device is not None)
    return looked <= SHARE * sum(one.seconds for one in reports)


def _promising(graph: SearchGraph, record: NodeRecord, report: ProfileReport) -> bool:
    parent = graph.nodes.get(record.parent)
    if parent is None or parent.fitness <= 0:
        return True
    assert report.timing is not None
    return report.timing.speedup[report.timing.best].low > parent.fitness
