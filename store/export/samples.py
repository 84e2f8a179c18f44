"""A session's completions, each with the prompt state it answered and the reward it earned. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...schemas import Intent, Interval, Verdict, user_name
from .prompts import Prompt, candidate_answer, prompt_sha256, request_prompt, state_prompt
from .session import Choose, ExportedNode, ExportedSession


@dataclass(frozen=True)
class Sample:
    """One completion."""

    node: ExportedNode
    author: str
    """Model, or the author's name where no model was asked."""
    prompt: Prompt
    completion: str
    reward: float
    """Median speedup against the best baseline, or the low end of its interval where that is too noisy;
    0 if wrong, or if the completion held no usable candidate."""
    speedup: Interval | None
    verdict: str

    @cached_property
    def state(self) -> tuple[str, str]:
        """Completions with the same one are answers of one author to one prompt state."""
        return self.author, prompt_sha256(self.prompt)


def samples_of(record: ExportedSession, choose: Choose, skipped: Counter[str]) -> Iterator[Sample]:
    """Every completion of the chosen nodes; what cannot be one is counted in ``skipped``, by reason."""
    for node in record.nodes.values():
        if choose(node):
            yield from node_samples(node, skipped, is_over=record.closed is not None)
        else:
            skipped["not selected"] += 1


def node_samples(node: ExportedNode, skipped: Counter[str], *, is_over: bool) -> Iterator[Sample]:
    """The completions of one node: every answer of a model, or the candidate itself.

    ``is_over``: whether its session is closed, so that what was not judged will not be.
    """
    reason = _no_reward(node, is_over)
    if reason:
        skipped[reason] += 1
        return
    answers = [call for call in node.calls if call.completion and not call.error]
    for call in answers:
        # A model is asked again if its answer held no candidate: only the last one can have earned what was measured.
        earned = call is answers[-1] and node.candidate is not None
        verdict = _verdict(node) if earned else Verdict.synthesis_failed.value
        reward, speedup = (node.reward, node.speedup) if earned else (0.0, None)
        yield Sample(node, call.model, request_prompt(call), call.completion, reward, speedup, verdict)
    if not answers and node.candidate is not None:
        prompt = state_prompt(node)
        author = user_name(node.candidate.backend)
        yield Sample(node, author, prompt, candidate_answer(node), node.reward, node.speedup, _verdict(node))


def _no_reward(node: ExportedNode, is_over: bool) -> str:
    if node.plan.intent is Intent.remeasure:
        return "measured again, nobody was asked for it"
    if node.plan.intent is Intent.dispatch:
        return "made of other nodes' kernels, nobody was asked for it"
    if node.diagnosis is None:
        return "not judged before its session ended" if is_over else "not judged yet"
    if node.diagnosis.verdict is Verdict.harness_error:
        return "given up, not the candidate's fault"
    if node.candidate is None and not any(call.completion and not call.error for call in node.calls):
        return "no completion"
    return ""


def _verdict(node: ExportedNode) -> str:
    return node.diagnosis.verdict.value if node.diagnosis is not None else ""
