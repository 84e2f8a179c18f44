"""From a session's samples to the rows of SFT, DPO and GRPO. Pure."""

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...schemas import Schema
from .rows import DpoRow, GrpoRow, SftRow, answer
from .samples import Sample, node_samples, samples_of
from .session import Choose, ExportedSession

Build = Callable[[ExportedSession, Choose, Counter[str]], Iterator[Schema]]
"""Makes a session's rows of the chosen nodes, and counts what gave none."""


def sft_rows(record: ExportedSession, choose: Choose, skipped: Counter[str]) -> Iterator[SftRow]:
    """The path from a draft to the best kernel, step by step."""
    best = record.best
    if best is None:
        still = "session that is still open, without a correct kernel so far"
        skipped["session without a correct kernel" if record.closed is not None else still] += 1
        return
    path = record.path(best)
    for step, node in enumerate(path, 1):
        if not choose(node):
            skipped["not selected"] += 1
            continue
        answers = list(node_samples(node, skipped, is_over=record.closed is not None))
        for sample in answers[-1:]:  # the one that the path went on with
            yield SftRow(
                **_common(record, sample),
                node=node.name,
                node_session=node.session,
                step=step,
                steps=len(path),
                completion=answer(sample.completion),
                verdict=sample.verdict,
                reward=sample.reward,
                best_reward=best.reward,
                win=record.closed is not None and record.closed.win,
            )


def dpo_rows(record: ExportedSession, choose: Choose, skipped: Counter[str]) -> Iterator[DpoRow]:
    """Every pair of answers to one prompt state whose difference is more than noise."""
    for group in _groups(samples_of(record, choose, skipped), skipped):
        for first, second in itertools.combinations(group, 2):
            chosen, rejected = (first, second) if first.reward >= second.reward else (second, first)
            if first.completion == second.completion:
                skipped["pair of equal answers"] += 1
            elif not _is_better(chosen, rejected):
                skipped["pair within the noise"] += 1
            else:
                yield _pair(record, chosen, rejected)


def grpo_rows(record: ExportedSession, choose: Choose, skipped: Counter[str]) -> Iterator[GrpoRow]:
    """All answers to one prompt state, where there are several."""
    for group in _groups(samples_of(record, choose, skipped), skipped):
        rewards = [sample.reward for sample in group]
        yield GrpoRow(
            **_common(record, group[0]),
            parent=group[0].node.plan.parent,
            completions=tuple(answer(sample.completion) for sample in group),
            nodes=tuple(sample.node.name for sample in group),
            verdicts=tuple(sample.verdict for sample in group),
            rewards=tuple(rewards),
            advantages=tuple(advantages(rewards)),
        )


def advantages(rewards: list[float]) -> list[float]:
    """Each reward relative to its group, in standard deviations (DeepSeekMath, section 4.1.2)."""
    mean, deviation = statistics.fmean(rewards), statistics.pstdev(rewards)
    return [(reward - mean) / deviation if deviation > 0 else 0.0 for reward in rewards]


BUILDERS: dict[str, Build] = {"sft": sft_rows, "dpo": dpo_rows, "grpo": grpo_rows}
"""By format."""


def _groups(samples: Iterable[Sample], skipped: Counter[str]) -> Iterator[list[Sample]]:
    groups: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.state].append(sample)
    for group in groups.values():
        if len(group) > 1:
            yield group
        else:
            skipped["only answer to its prompt state"] += 1


def _is_better(chosen: Sample, rejected: Sample) -> bool:
    """Right against wrong, or intervals that do not touch."""
    if chosen.speedup is None:
        return False
    return rejected.speedup is None or chosen.speedup.low > rejected.speedup.high


def _pair(record: ExportedSession, chosen: Sample, rejected: Sample) -> DpoRow:
    return DpoRow(
        **_common(record, chosen),
        parent=chosen.node.plan.parent,
        chosen=answer(chosen.completion),
        rejected=answer(rejected.completion),
        chosen_node=chosen.node.name,
        rejected_node=rejected.node.name,
        chosen_verdict=chosen.verdict,
        rejected_verdict=rejected.verdict,
        chosen_reward=chosen.reward,
        rejected_reward=rejected.reward,
        margin=chosen.reward - rejected.reward,
    )


def _common(record: ExportedSession, sample: Sample) -> dict[str, Any]:
    opened = sample.node.opened
    return {
        "session": record.session,
        "problem": opened.problem.name,
        "problem_sha256": opened.problem.sha256,
        "pool": opened.pool.name,
        "device": opened.hardware.device,
        "author": sample.author,
        "prompt": sample.prompt,
        "prompt_sha256": sample.state[1],
    }
