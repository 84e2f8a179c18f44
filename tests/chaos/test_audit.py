"""The audit finds what it is there to find: a test that nothing can fail would prove nothing."""

from collections.abc import Sequence

import msgspec
import pytest
from story import story

import given
from kernelswarm.schemas import Envelope, InputError, SessionClosed, Verdict, encode
from kernelswarm.store.chain import GENESIS, Row, link, read_message
from kernelswarm.tests.chaos.audit import Chain, decided_alike, judged_rightly, same
from kernelswarm.tests.chaos.injections import INJECTIONS
from kernelswarm.tests.chaos.plans import ALONE, KINDS, Injection, RoundPlan, chosen_kinds, plan_round
from kernelswarm.tests.chaos.problem import candidate

TOLD = story("s1")


def stream(envelopes: Sequence[Envelope]) -> list[tuple[int, bytes, Envelope]]:
    return [(seq, encode(envelope), envelope) for seq, envelope in enumerate(envelopes, 1)]


def log(envelopes: Sequence[Envelope]) -> list[Row]:
    rows: list[Row] = []
    for seq, envelope in enumerate(envelopes, 1):
        rows.append(link(read_message(encode(envelope)), seq, rows[-1].hash if rows else GENESIS))
    return rows


def test_a_good_log_passes_also_beside_copies_on_the_stream() -> None:
    assert same(stream([*TOLD, TOLD[2]]), log(TOLD)) == []
    assert Chain().follow(log(TOLD)) == []


def test_a_lost_a_doubled_an_altered_and_an_invented_event_are_named() -> None:
    third = TOLD[2]
    altered = msgspec.structs.replace(third, worker="somebody else")
    closing = given.envelope_of(SessionClosed(reason="user"), session="s1")
    for envelopes, fault in (
        ([*TOLD[:2], *TOLD[3:]], f"event {third.id} (message 3) is on the stream but not in the log"),
        ([*TOLD, third], f"event {third.id} is 2 times in the log"),
        ([*TOLD[:2], altered, *TOLD[3:]], f"event {third.id} has other bytes in the log than on the stream"),
        ([*TOLD, closing], f"event {closing.id} is in the log but not on the stream"),
        ([TOLD[1], TOLD[0], *TOLD[2:]], "the log has the events in another order than the stream"),
    ):
        assert same(stream(TOLD), log(envelopes)) == [fault]


def test_a_broken_chain_is_found_where_it_breaks() -> None:
    rows = log(TOLD)
    chain = Chain()
    assert chain.follow(rows[:3]) == []
    assert chain.follow([rows[3]._replace(hash="0" * 64)]) == [
        "event 4 of the log does not follow from the one before it"
    ]
    assert Chain().follow(rows[1:]) == ["the log's event after 0 stands at 2"]


def test_a_decision_that_does_not_follow_is_found() -> None:
    opened = given.envelope_of(given.opened(), session="s1")
    invented = given.envelope_of(SessionClosed(reason="user"), session="s1", cause=opened.id)
    invented = msgspec.structs.replace(invented, agent="planner")
    (fault,) = decided_alike("s1", stream([opened, invented]))
    assert "diverges" in fault
    assert any("says more" in fault for fault in decided_alike("s1", stream([opened])))


def test_a_plan_follows_from_its_seed_and_every_kind_has_its_turn() -> None:
    plans = [plan_round(7, number, tuple(KINDS)) for number in range(1, 201)]
    assert plans == [plan_round(7, number, tuple(KINDS)) for number in range(1, 201)]
    assert [plan.injections[0].kind for plan in plans[: len(KINDS)]] == list(KINDS)
    assert set(INJECTIONS) == set(KINDS) - {ALONE}
    assert plan_round(8, 1, tuple(KINDS)) != plans[0]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="unknown fault 'sever': choose of agents"):
        chosen_kinds(["sever"])


def test_a_candidate_that_was_not_judged_as_what_it_is_is_found() -> None:
    plan = RoundPlan(seed=7, number=1, candidates=("wrong", "broken"), injections=())

    def history(first: Verdict, *, proposed: int = 2) -> list[Envelope]:
        sources = [candidate(name, number) for number, name in enumerate(plan.candidates, 1)][:proposed]
        nodes = [(f"n{number:03}", source) for number, source in enumerate(sources, 1)]
        return [
            *(given.envelope_of(given.candidate(source), session="s1", node=node) for node, source in nodes),
            given.envelope_of(given.diagnosed(verdict=first), session="s1", node="n001"),
            given.envelope_of(given.diagnosed(verdict=Verdict.load_error), session="s1", node="n002"),
        ]

    assert judged_rightly(plan, stream(history(Verdict.wrong_numbers))) == []
    assert judged_rightly(plan, stream(history(Verdict.harness_error))) == [
        "candidate n001 (wrong) was judged harness_error, not wrong_numbers"
    ]
    assert judged_rightly(plan, stream(history(Verdict.wrong_numbers, proposed=1))) == ["1 candidates were never made"]
    excused = msgspec.structs.replace(
        plan, injections=(Injection(kind="candidate", after=1, delay_s=0, for_s=0, draw=0),)
    )
    assert judged_rightly(excused, stream(history(Verdict.crash))) == []
