"""What a model is asked about a candidate: the same events give the same text."""

from collections.abc import Sequence
from typing import Any

from ...graph.nodes import NodeRecord
from ...graph.session_graph import SearchGraph
from ...schemas import AdviceAction, Bottleneck, NodeDiagnosed, SessionOpened
from ..consulting import NUMBER, TEXT, Question, list_of, name_of, object_of

SOURCE_CHARACTERS = 40_000
EVIDENCE_CHARACTERS = 6_000

_SYSTEM = """\
You are the analyst of a search for the fastest correct kernel. You get one candidate, how it was judged, what was
measured, and what rules make of it. Say what limits it and what the next candidate should try.

Answer with one JSON object and nothing else:
{{"bottleneck": "...", "summary": "...", "advice": [{{"action": "...", "reason": "...", "weight": 1.0}}]}}
- bottleneck: one of {bottlenecks}; fault if and only if the candidate does not work.
- summary: one sentence for engineers, with the number it rests on.
- advice: one to six things to try, the best first. action is one of {actions}. reason says what to change in this
  candidate and why. weight is above 0 and says how much you believe in it, relative to the others.
The verdict and the times are measured; you cannot change them."""


def question(graph: SearchGraph, node: str, ruled: NodeDiagnosed) -> Question:
    """About ``node``, which rules diagnosed as ``ruled``."""
    record, opened = graph.nodes[node], graph.opened
    assert opened is not None, "a node is planned after its session was opened"
    actions = _actions(opened)
    parts = [_problem(graph), _candidate(record), _judgement(record, ruled), _rules(ruled), _parent(graph, record)]
    system = _SYSTEM.format(bottlenecks=", ".join(Bottleneck), actions=", ".join(actions))
    return Question(
        system=system,
        text="\n\n".join(part for part in parts if part),
        answer_schema=_schema(ruled, actions) if opened.structures_answers else None,
    )


def _actions(opened: SessionOpened) -> list[AdviceAction]:
    """What may be advised: on an accelerator nothing that helps a processor alone. Older sessions offered all."""
    has_all = opened.pool.platform == "cpu" or not opened.structures_answers
    return [action for action in AdviceAction if has_all or action is not AdviceAction.avoid_page_faults]


def _schema(ruled: NodeDiagnosed, actions: Sequence[AdviceAction]) -> dict[str, Any]:
    """Of an answer that can be used: whether there is a fault is not the model's to say."""
    is_broken = ruled.bottleneck is Bottleneck.fault
    limits = [limit for limit in Bottleneck if (limit is Bottleneck.fault) is is_broken]
    advice = object_of({"action": name_of(actions), "reason": TEXT, "weight": NUMBER})
    return object_of({"bottleneck": name_of(limits), "summary": TEXT, "advice": list_of(advice)})


def _problem(graph: SearchGraph) -> str:
    opened = graph.opened
    assert opened is not None, "a node is planned after its session was opened"
    hardware, work = opened.hardware, opened.facts.work
    return "\n".join(
        [
            f"# Problem {opened.problem.name}",
            fenced(_shortened(opened.problem.source, SOURCE_CHARACTERS)),
            f"Pool {opened.pool.name} ({opened.pool.platform}): {hardware.device}. Measured copy "
            f"{hardware.copy_gbps:.4g} GB/s, {hardware.peak_gflops:.4g} GFLOP/s in fp32.",
            f"Work at the timed shape: {work.read_bytes} bytes read, {work.write_bytes} written, {work.flops} "
            "operations.",
        ]
    )


def _candidate(record: NodeRecord) -> str:
    source = record.candidate.source if record.candidate is not None else ""
    language = record.candidate.language if record.candidate is not None else ""
    return f"# Candidate {record.name} ({language})\n{fenced(_shortened(source, SOURCE_CHARACTERS))}" if source else ""


def _judgement(record: NodeRecord, ruled: NodeDiagnosed) -> str:
    lines = [f"# Judgement\nVerdict: {ruled.verdict.value}."]
    if ruled.speedup is not None:
        interval = ruled.speedup
        lines.append(
            f"Speedup {interval.median:.4g} ({interval.low:.4g} to {interval.high:.4g}) against {ruled.against}."
        )
    if ruled.roofline_fraction is not None:
        lines.append(f"Share of the roofline: {ruled.roofline_fraction:.3f}.")
    report = record.compile_report
    if report is not None:
        lines += [f"- {d.line}:{d.column}: {d.severity}: {d.message}" for d in report.diagnostics[:20]]
        lines += [f"- {k.name}: {k.registers} registers, {k.spill_bytes} bytes spilled" for k in report.kernels]
    for judged in (record.verify_report, record.profile_report):
        if judged is not None and judged.evidence is not None:
            seen = judged.evidence
            lines.append(_shortened("\n".join(filter(None, [seen.message, seen.log])), EVIDENCE_CHARACTERS))
    return "\n".join(lines)


def _rules(ruled: NodeDiagnosed) -> str:
    lines = [f"# What rules make of it\n{ruled.bottleneck.value}: {ruled.summary}"]
    lines += [f"- {finding.name} = {finding.value}: {finding.meaning}" for finding in ruled.evidence]
    lines += [f"- advice {advice.action.value}: {advice.reason}" for advice in ruled.advice]
    return "\n".join(lines)


def _parent(graph: SearchGraph, record: NodeRecord) -> str:
    parent = graph.nodes.get(record.parent)
    if parent is None or parent.diagnosis is None:
        return ""
    speedup = parent.speedup if parent.is_too_noisy else f"{parent.fitness:.4g}x"
    return f"# Parent {parent.name}\n{parent.diagnosis.verdict.value}, {speedup}. {parent.diagnosis.summary}"


def fenced(text: str) -> str:
    """``text`` in a fence that nothing in it can close."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}\n{text.rstrip()}\n{ticks}"


def _shortened(text: str, characters: int) -> str:
    """Beginning and end of ``text`` if it is longer than ``characters``."""
    half = characters // 2
    return text if len(text) <= characters else f"{text[:half]}\n[…]\n{text[-half:]}"
