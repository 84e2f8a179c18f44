"""Skills: what a session taught, as a record that later searches find and a document that people and models read."""

import json
from collections.abc import Sequence

from msgspec.structs import replace

from ..schemas import Config, Pool, Problem, ProblemFacts, Skill, sha256
from . import front_matter
from .lessons import Effect, Failure, Trial, Value, best_trials, failures, tunable_effects
from .similarity import sizes_of

MOST_CONFIGS = 3
"""Settings that a skill hands on."""
MOST_IDEA = 1000
"""Characters of what the author of the fastest kernel says of it."""

_MOST_EFFECTS = 8
_MOST_FAILURES = 5


def distill(
    problem: Problem,
    facts: ProblemFacts,
    pool: Pool,
    trials: Sequence[Trial],
    *,
    session: str,
    against: str = "",
    names_unconfirmed: bool = False,
) -> Skill | None:
    """The skill of a finished session; None if nothing correct was timed, for nothing was learned then.

    Args:
        problem: What was searched.
        facts: What problem validation found of it.
        pool: Where.
        trials: Every node, confirmations included in their numbers.
        session: The session's id, for the text.
        against: Name of the best baseline.
        names_unconfirmed: Whether it says that its best was timed once, where that is so.
    """
    timed = [trial for trial in trials if trial.speedup > 0]
    if not timed:
        return None
    eligible = [trial for trial in timed if trial.confirmed] or timed
    best = min(eligible, key=lambda trial: (-trial.speedup, trial.node))
    # The best of many single measurements is luck in part: without a second one that holds there is nothing to repeat.
    others = [trial for trial in best_trials(trials) if trial.node != best.node]
    configured = tuple([best, *others][:MOST_CONFIGS]) if best.speedup > 1 and best.recipe else ()
    doubt = ", timed once and not confirmed" if names_unconfirmed and not best.confirmed else ""
    title = _title(problem, best) + doubt
    body = _body(title, facts, trials, best, configured, against or "the best baseline")
    evidence = tuple(dict.fromkeys(id for trial in (best, *configured) for id in trial.evidence))
    operators = tuple(sorted(facts.operators))
    # The identity is the content without the session, so the same lesson learned twice is one skill.
    identity = sha256(json.dumps([title, body, pool.name, facts.dtype, sizes_of(facts), operators]))
    head: front_matter.Head = {
        "title": title,
        "platform": pool.platform,
        "pool": pool.name,
        "dtype": facts.dtype,
        "operators": list(operators),
        "sizes": [str(size) for size in sizes_of(facts)],
        "speedup": round(best.speedup, 3),
        "session": session,
        "evidence": list(evidence),
    }
    return Skill(
        id=f"{problem.name}-{identity[:12]}",
        title=title,
        pool=pool.name,
        platform=pool.platform,
        operators=operators,
        dtype=facts.dtype,
        sizes=sizes_of(facts),
        text=front_matter.join(head, body),
        recipes=tuple(trial.recipe for trial in configured),
        speedup=best.speedup,
        evidence=evidence,
    )


def with_lessons(skill: Skill, lessons: Sequence[str], by: str) -> Skill:
    """``skill`` with what ``by`` (a model) makes of the session, in a section of its own before the numbers.

    It stays the skill that the rules distilled, and keeps its id: a model words the same lessons anew each time.
    """
    heading = f"## What {by} makes of it\n\n"
    section = heading + "\n".join(f"- {lesson}" for lesson in lessons) + "\n\n"
    before, numbers, after = skill.text.rpartition("## The numbers")
    return replace(skill, text=f"{before}{section}{numbers}{after}")


def _title(problem: Problem, best: Trial) -> str:
    if best.speedup > 1:
        return f"{problem.name}: {best.speedup:.2f}x and what it took"
    return f"{problem.name}: no win found, {best.speedup:.2f}x at best"


def _body(
    title: str, facts: ProblemFacts, trials: Sequence[Trial], best: Trial, top: Sequence[Trial], against: str
) -> str:
    sections = [
        ("When it applies", _applies(facts)),
        ("What to do", _what_to_do(best, top)),
        ("What mattered", _effects(tunable_effects(trials))),
        ("What failed", _failures(failures(trials))),
        ("The numbers", _numbers(trials, best, against)),
    ]
    return f"# {title}\n\n" + "\n\n".join(f"## {name}\n\n{text}" for name, text in sections if text)


def _applies(facts: ProblemFacts) -> str:
    work = facts.work
    names = ", ".join(f"`{operator}`" for operator in sorted(facts.operators)) or "unknown (it could not be captured)"
    return (
        f"Problems in {facts.dtype} of these operators: {names}. Learned at {work.read_bytes / 1e6:.1f} MB read, "
        f"{work.write_bytes / 1e6:.1f} MB written, {work.flops / 1e6:.1f} million operations a call."
    )


def _what_to_do(best: Trial, top: Sequence[Trial]) -> str:
    if not top:
        # An author's text of several lines could write sections that later authors would read as measured.
        words = " ".join(best.rationale.split())[:MOST_IDEA]
        idea = f" Its idea: {words}" if words else ""
        verb = "The fastest had no knobs." if best.speedup > 1 else "Nothing tried here beat the baseline."
        return verb + idea
    lines = [
        f"{rank}. {trial.speedup:.2f}x: {_config_text(trial.recipe)}{_why(trial)}"
        for rank, trial in enumerate(top, start=1)
    ]
    return "Try these settings first:\n\n" + "\n".join(lines)


def _why(trial: Trial) -> str:
    return f" (limited by {trial.bottleneck})" if trial.bottleneck else ""


def _effects(effects: Sequence[Effect]) -> str:
    lines = [
        f"- `{e.tunable}`: {_value(e.better)} instead of {_value(e.worse)}: {e.ratio:.2f}x "
        f"({e.low:.2f} to {e.high:.2f} in {_count(e.pairs, 'pair')}, {e.parents} of them siblings)"
        for e in effects[:_MOST_EFFECTS]
    ]
    return "Pairs of candidates that differ in this setting alone:\n\n" + "\n".join(lines) if lines else ""


def _failures(failed_settings: Sequence[Failure]) -> str:
    return "\n".join(
        f"- `{f.tunable}` = {_value(f.value)}: {f.verdict.value}, {_count(f.count, 'time')} of {f.count}"
        for f in failed_settings[:_MOST_FAILURES]
    )


def _numbers(trials: Sequence[Trial], best: Trial, against: str) -> str:
    correct = sum(trial.speedup > 0 for trial in trials)
    wins = sum(trial.speedup > 1 for trial in trials)
    spread = f" (interval {best.interval.low:.2f} to {best.interval.high:.2f})" if best.interval else ""
    return (
        f"Best: {best.speedup:.2f}x{spread} against {against}. {_count(len(trials), 'candidate')}, {correct} correct "
        f"and timed, {wins} faster than the baseline in the median."
    )


def _config_text(config: Config) -> str:
    return ", ".join(f"`{tunable}` = {_value(value)}" for tunable, value in sorted(config.items()))


def _value(value: Value) -> str:
    return "unset" if value is None else f"`{json.dumps(value)}`"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
