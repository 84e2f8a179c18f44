"""An analyst that asks a model what limits a candidate and what to try next. The numbers are the rules' in any case."""

import math
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...graph.session_graph import SearchGraph
from ...schemas import (
    Advice,
    AdviceAction,
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    Event,
    Finding,
    NodeDiagnosed,
    ProfilingFailed,
    RoleModel,
    SessionOpened,
    Verdict,
    VerificationFailed,
)
from ..consulting import Consultation, Reading, Unusable, json_object
from .diagnose import LIMITED_BY
from .question import question

ASKED = (CandidateProfiled, CompilationFailed, VerificationFailed, ProfilingFailed)
"""What a model is asked about: where there is no candidate there is nothing to say."""

MOST_ADVICE = 6
REASON_CHARACTERS = 400
SUMMARY_CHARACTERS = 600
HEAVIEST = 10.0
"""Weights of advice are relative; one beyond this would silence all others."""


def consultation(
    graph: SearchGraph, node: str, event: Event, ruled: NodeDiagnosed
) -> Consultation[NodeDiagnosed] | None:
    """The question about ``node`` that the session has a model for; None if its rules decide.

    A confirmation repeats what is known, and a fault of the judge says nothing of the candidate: no question then.
    """
    opened = graph.opened
    asker = next((role for role in opened.roles if role.role == "analyst"), None) if opened is not None else None
    if (
        opened is None
        or asker is None
        or not isinstance(event, ASKED)
        or ruled.confirmation
        or ruled.verdict is Verdict.harness_error
    ):
        return None
    return Consultation(asker, question(graph, node, ruled), partial(read, opened, asker, ruled), ruled)


def read(opened: SessionOpened, asker: RoleModel, ruled: NodeDiagnosed, completion: str) -> Reading[NodeDiagnosed]:
    """The diagnosis that an answer makes of the rules' one.

    Raises:
        Unusable: it is no diagnosis.
    """
    answer = json_object(completion)
    summary = _text(answer, "summary", SUMMARY_CHARACTERS)
    named = _bottleneck(answer, ruled)
    advice = _advice(answer.get("advice"))
    by = Finding(
        name="analyst", value=f"{asker.backend} {asker.model}", meaning="a model named the limit and the advice"
    )
    measured = ruled.summary
    if opened.names_one_limit and named is not ruled.bottleneck:
        measured = measured.partition(LIMITED_BY)[0]
    diagnosed = replace(
        ruled, bottleneck=named, summary=f"{measured}; {summary}", advice=advice, evidence=(*ruled.evidence, by)
    )
    return Reading(diagnosed, summary)


def _bottleneck(answer: dict[str, Any], ruled: NodeDiagnosed) -> Bottleneck:
    try:
        named = Bottleneck(str(answer.get("bottleneck")))
    except ValueError:
        names = ", ".join(Bottleneck)
        raise Unusable(f"bottleneck is {answer.get('bottleneck')!r}: it must be one of {names}") from None
    if (named is Bottleneck.fault) != (ruled.bottleneck is Bottleneck.fault):
        is_broken = ruled.bottleneck is Bottleneck.fault
        raise Unusable("the candidate does not work: bottleneck must be fault" if is_broken else "it works: no fault")
    return named


def _advice(given: object) -> tuple[Advice, ...]:
    if not isinstance(given, list) or not given:
        raise Unusable("advice must be a list with at least one entry")
    return tuple(_one_advice(entry) for entry in given[:MOST_ADVICE])


def _one_advice(entry: object) -> Advice:
    if not isinstance(entry, dict):
        raise Unusable("an entry of advice must be an object with action, reason and weight")
    try:
        action = AdviceAction(str(entry.get("action")))
    except ValueError:
        names = ", ".join(AdviceAction)
        raise Unusable(f"action is {entry.get('action')!r}: it must be one of {names}") from None
    weight = entry.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight <= 0:
        raise Unusable(f"weight is {weight!r}: it must be a number above 0")
    return Advice(action=action, reason=_text(entry, "reason", REASON_CHARACTERS), weight=min(float(weight), HEAVIEST))


def _text(answer: dict[str, Any], name: str, characters: int) -> str:
    text = answer.get(name)
    if not isinstance(text, str) or not text.strip():
        raise Unusable(f"{name} must be a sentence")
    return " ".join(text.split())[:characters]
