"""The last word of a session: what was found, and why it ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...schemas import Interval, SessionClosed, SessionOpened
from ...schemas.pool import BASELINE_NAMES
from .state import PlannedNode, PlannerState
from .ways_out import deciding, verdict_of, ways_out

Worth = Callable[[Interval], float]
"""What a speedup counts as: :meth:`.SessionOpened.worth`."""


def closing(state: PlannerState) -> SessionClosed:
    """SessionClosed as it follows from the state. A win needs intervals above 1, confirmed where it could be."""
    correct = [node for node in state.correct() if not node.inherited]
    confirmed = [node for node in correct if node.confirmed]
    worth = state.opened.worth if state.opened is not None else _median
    best = _best(confirmed or correct, worth, state.opened)
    # Where ordinary processes have their say, only finalists were timed there.
    has_ordinary = any(_is_timed_ordinarily(node) for node in confirmed)
    # Sessions of older versions knew one confirmation at most, and went by the judge where there was none.
    needs_finalist = state.opened is not None and (state.opened.confirmations > 1 or state.opened.trusts_finalists)
    wins = sum(node.is_win for node in (confirmed if has_ordinary or needs_finalist else correct))
    win = best is not None and best.is_win and (best.confirmed or not (confirmed or needs_finalist))
    ordinary = best is not None and best.ordinary is not None and not best.counts_device_alone
    call = best if best and state.opened and not state.opened.is_on_processor else None
    return SessionClosed(
        reason=state.finishing or "budget",
        best=best.name if best else "",
        win=win,
        speedup=best.reported if best else None,
        against=_against(best) if best else "",
        judged=best.speedup if best and ordinary else None,
        judged_against=best.against if best and ordinary else "",
        call=call.ordinary if call else None,
        call_against=call.ordinary_against if call else "",
        candidates=len(state.own()),
        correct=len(correct),
        wins=wins,
        detail=_sentence(best, win, state.opened, state.finishing or "budget"),
    )


def _is_timed_ordinarily(node: PlannedNode) -> bool:
    """Whether ordinary processes were asked, and count."""
    return not node.counts_device_alone and bool(node.ordinary or node.ordinary_missing)


def _against(node: PlannedNode) -> str:
    """Name of the baseline of the speedup that people are told."""
    return node.against if node.counts_device_alone else node.ordinary_against or node.against


def _median(speedup: Interval) -> float:
    return speedup.median


def _best(nodes: Sequence[PlannedNode], worth: Worth, opened: SessionOpened | None) -> PlannedNode | None:
    """The fastest win; where there is none, what is nearest to one. ``nodes``: the fittest first, which is what counts
    where nothing was measured in ordinary processes; older sessions put no win before who is undecided there."""
    if not any(node.ordinary or node.ordinary_missing for node in nodes):
        wins_first = opened is not None and opened.trusts_finalists
        return max(nodes, key=lambda node: wins_first and node.is_win, default=None)
    if any(map(_is_timed_ordinarily, nodes)):
        passes_over = opened is not None and opened.passes_over_slower
        return max(nodes, key=lambda node: _rank(node, worth, passes_over))
    return _best_on_device(nodes, worth)


def _rank(node: PlannedNode, worth: Worth, passes_over_slower: bool) -> tuple[bool, bool, float]:
    # A win needs both numbers: one that is far below 1 says more than the other far above it.
    counted = (node.reported,) if node.is_win else (node.speedup, node.ordinary)
    worths = [worth(interval) for interval in counted if interval is not None]
    is_slower = passes_over_slower and node.ordinary is not None and node.ordinary.high < 1.0
    return node.is_win, node.ordinary is not None and not is_slower, min(worths, default=0.0)


def _best_on_device(nodes: Sequence[PlannedNode], worth: Worth) -> PlannedNode:
    """The fastest on the device; of those that another run might find as fast, the one whose call is the fastest."""
    first = max(nodes, key=lambda node: (node.is_win, worth(node.speedup) if node.speedup else 0.0))
    low = first.speedup.low if first.speedup else 0.0
    alike = [node for node in nodes if node.is_win == first.is_win and node.speedup and worth(node.speedup) >= low]
    return max(alike, key=lambda node: worth(node.ordinary) if node.ordinary else 0.0, default=first)


@dataclass(frozen=True)
class _Words:
    """How the two numbers are called: of an accelerator, or of a processor."""

    judged: str
    ordinary: str
    untimed: str


_PROCESSOR = _Words("by the judge", "in ordinary processes", "was not timed in ordinary processes")
_ACCELERATOR = _Words("on the device", "as a call", "was not timed as a call")


def _sentence(best: PlannedNode | None, win: bool, opened: SessionOpened | None, reason: str) -> str:
    sentence = _result(best, win, opened)
    if win or best is None or best.speedup is None or opened is None or not opened.explains_losses:
        return sentence
    decided = None if best.obstacle or best.is_win else deciding(best)
    fraction = best.roofline_fraction if decided and opened.names_roofline else None
    return "; ".join(filter(None, [sentence, ways_out(opened, reason, decided, fraction)]))


def _result(best: PlannedNode | None, win: bool, opened: SessionOpened | None) -> str:
    if best is None or best.speedup is None:
        return "no win found: no candidate was right"
    baseline = opened.against if opened else "best"
    words = _PROCESSOR if opened is None or opened.is_on_processor else _ACCELERATOR
    over = partial(_over, in_words=opened is not None and opened.trusts_finalists)
    judged = f"{over(best.speedup, best.against)} {words.judged}"
    if best.broken_contract:
        return f"no win found: {best.broken_contract} ({judged})"
    if best.obstacle:
        return f"no win found: {best.name} {words.untimed}: {best.obstacle} ({judged})"
    if best.is_win and not win:
        return f"no win found: {best.name} stands at {judged}, and it ended before a second run confirmed that"
    reported = best.reported or best.speedup
    beside = _beside_device(best, words, over) if best.counts_device_alone else ""
    if best.ordinary and not best.counts_device_alone:
        beside = f" {words.ordinary} ({judged})"
    missing = f"; {_baseline(baseline)} could not be timed" if baseline not in ("best", best.against) else ""
    for name, why in best.absent.items():
        missing += f"; {_baseline(name)} was not compared: {why}"
    if opened and opened.closer_diagnoses and best.ordinary and best.ordinary_against not in ("", best.against):
        missing = f"; each number is against the baseline that was the fastest there{missing}"
    if worst := best.worst_shape:
        number = words.ordinary if best.ordinary and not best.counts_device_alone else words.judged
        by = f" {number}" if opened and opened.names_worst_shapes else ""
        missing = f"; the worst of its {len(best.shapes)} shapes{by} is {worst[0]}: {worst[1]}{missing}"
    if not win and opened and opened.explains_losses:
        return f"no win found: {_lost(best, words, over, opened)}{missing}"
    if not win:
        stands = "'s time is" if reported.is_noise else " stands at"
        # Older sessions confirmed it whatever that took.
        late = opened is not None and opened.reserve > 0 and not best.confirmed
        surely = ", not confirmed by a second run" if late else ""
        return f"no win found: the best candidate{stands} {over(reported, _against(best))}{beside}{surely}{missing}"
    surely = "" if best.confirmed else ", not confirmed by a second run"
    return f"{best.name} is {reported} as fast as {_baseline(_against(best))}{beside}{surely}{missing}"


def _lost(best: PlannedNode, words: _Words, over: Callable[[Interval, str], str], opened: SessionOpened) -> str:
    """The number that decided that it is no win, what that missed, and the other one."""
    interval = deciding(best)
    assert interval is not None
    stands = f"{best.name}'s time is" if interval.is_noise else f"{best.name} stands at"
    numbers = [(best.speedup, best.against, words.judged)]
    if best.counts_device_alone:
        is_told = best.ordinary or not opened.names_roofline
        beside = (_beside_device(best, words, over) if is_told else "") or f" {words.judged}"
    else:
        numbers += [(best.ordinary, best.ordinary_against or best.against, words.ordinary)]
        (_, _, name), *others = sorted(numbers, key=lambda number: number[0] is not interval)
        beside = "".join([f" {name}", *(f" ({over(other, by)} {word})" for other, by, word in others if other)])
    against = next(by for number, by, _ in numbers if number is interval)
    surely = "" if best.confirmed or not opened.reserve else ", not confirmed by a second run"
    verdict = verdict_of(interval, len(best.counted))
    return f"{stands} {over(interval, against)}{beside}{surely}; {verdict}"


def _beside_device(best: PlannedNode, words: _Words, over: Callable[[Interval, str], str]) -> str:
    """That it is the device's time, and what the call is, where that was asked."""
    if best.ordinary:
        call = f"{over(best.ordinary, best.ordinary_against)} {words.ordinary}"
        return f" {words.judged} ({call})"
    return f" {words.judged} (it {words.untimed}: {best.ordinary_missing})" if best.ordinary_missing else ""


def _over(speedup: Interval, against: str, *, in_words: bool) -> str:
    """``1.20x (1.10 to 1.30) of eager``; what is too noisy is no part of anything. Older sessions gave its ends."""
    ratio = speedup.in_words if in_words else str(speedup)
    return f"{ratio} {'against' if speedup.is_noise else 'of'} {_baseline(against)}"


def _baseline(name: str) -> str:
    return BASELINE_NAMES.get(name, name) or "the best baseline"
