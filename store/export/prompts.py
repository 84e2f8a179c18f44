"""What a node's synthesizer was asked, as chat messages: the exact request of a model, or the state in words.

The generator reads no text: its "prompt" is the state its answer depends on, written down here. Its randomness (the
plan's draw, the order of the advice) and what it must not repeat are the sampling, not the prompt.
"""

import json
from typing import Any

from ...schemas import ModelCalled, Schema, SessionOpened, sha256
from .session import ExportedNode


class ChatMessage(Schema, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    """``system``, ``user`` or ``assistant``."""
    content: str


Prompt = tuple[ChatMessage, ...]

_SYSTEM = (
    "You write the fastest correct kernel for a PyTorch operator on one machine. Answer with one or two sentences: the "
    "idea and why it should be faster. Then the complete candidate file in exactly one ```python block."
)
_TASKS = {
    "draft": "Draft a candidate from the reference.",
    "improve": "Improve on the parent: act on its diagnosis and make it faster.",
    "repair": "Repair the parent: it does not work. Keep its idea and fix the fault that the diagnosis names.",
}


def prompt_sha256(prompt: Prompt) -> str:
    """Identity of a prompt state: sha256 of its messages as JSON (keys sorted, no spaces, UTF-8)."""
    messages = [{"content": message.content, "role": message.role} for message in prompt]
    return sha256(json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


def request_prompt(call: ModelCalled) -> Prompt:
    """The conversation that a model was sent."""
    try:
        body = json.loads(call.request)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return (ChatMessage(role="user", content=call.request),)
    system = _text(body.get("system"))
    turns = [
        ChatMessage(role=str(turn.get("role", "user")), content=_text(turn.get("content")))
        for turn in body["messages"]
        if isinstance(turn, dict)
    ]
    return (*([ChatMessage(role="system", content=system)] if system else []), *turns)


def state_prompt(node: ExportedNode) -> Prompt:
    """Problem, machine, skills, parent, diagnosis and intent of a plan in words."""
    opened = node.opened
    parts = [_problem(opened), _machine(opened), _skills(opened), _parent(node), _diagnosis(node), _task(opened, node)]
    text = "\n\n".join(part for part in parts if part)
    return ChatMessage(role="system", content=_SYSTEM), ChatMessage(role="user", content=text)


def candidate_answer(node: ExportedNode) -> str:
    """A candidate as the answer that the prompts ask for."""
    assert node.candidate is not None
    return f"{node.candidate.rationale.strip()}\n\n{_fenced(node.candidate.source, 'python')}".strip()


def _text(content: Any) -> str:
    """The text of a message, whose blocks stand in paragraphs of their own."""
    if isinstance(content, list):
        return "\n\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def _problem(opened: SessionOpened) -> str:
    problem, facts = opened.problem, opened.facts
    shapes = [
        f"- {shape.name}: "
        + ", ".join(f"{fact.name} {fact.dtype or fact.kind}{list(fact.shape)}" for fact in shape.inputs)
        for shape in facts.shapes
    ]
    lines = [f"# Problem `{problem.name}` ({problem.format.value})", _fenced(problem.source, "python"), "Shapes:"]
    timed = ", ".join(f"{shape.name} (weight {shape.weight or 1.0:g})" for shape in facts.timed)
    return "\n".join([*lines, *shapes, f"Precision to match: {facts.dtype}. Timed: {timed}."])


def _machine(opened: SessionOpened) -> str:
    facts, pool = opened.hardware, opened.pool
    return (
        f"# Machine\nPlatform {pool.platform}: {facts.device}, {pool.threads or facts.cores} threads; instruction sets "
        f"{', '.join(facts.isa) or 'unknown'}; vectors of {facts.vector_bytes} bytes; caches {facts.l2_bytes} and "
        f"{facts.l3_bytes} bytes; copy {facts.copy_gbps:.4g} GB/s; {facts.peak_gflops:.4g} GFLOP/s in fp32."
    )


def _skills(opened: SessionOpened) -> str:
    return (
        "\n\n".join(["# What earlier searches taught", *(skill.text for skill in opened.skills)])
        if opened.skills
        else ""
    )


def _parent(node: ExportedNode) -> str:
    parent = node.parent
    if parent is None:
        return ""
    source = parent.candidate.source if parent.candidate is not None else ""
    config = parent.candidate.recipe if parent.candidate is not None else {}
    settings = ", ".join(f"{name}={value}" for name, value in sorted(config.items()))
    return "\n".join(["# Parent", *([f"Settings: {settings}"] if settings else []), _fenced(source, "python")])


def _diagnosis(node: ExportedNode) -> str:
    diagnosis = node.parent_diagnosis
    if diagnosis is None:
        return ""
    lines = [f"# Diagnosis of the parent\n{diagnosis.verdict.value}, speedup {diagnosis.fitness:.4g}, limited by"]
    lines[0] += f" {diagnosis.bottleneck.value}: {diagnosis.summary}"
    lines += [f"- {finding.name} = {finding.value}: {finding.meaning}" for finding in diagnosis.evidence]
    # As the analyst gave it: the order that the planner drew is part of the sampling.
    lines += [f"- advice: {advice.action.value}: {advice.reason}" for advice in diagnosis.advice]
    return "\n".join(lines)


def _task(opened: SessionOpened, node: ExportedNode) -> str:
    entry = "`class ModelNew(nn.Module)`" if opened.problem.format.value == "kernelbench" else "`def kernel`"
    return f"# Task\n{_TASKS[node.plan.intent.value]} Native code in {opened.language}. The file defines {entry}."


def _fenced(text: str, tag: str) -> str:
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{tag}\n{text.rstrip()}\n{ticks}"
