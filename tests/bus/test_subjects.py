import pytest

from kernelswarm.bus.subjects import (
    ANY,
    durable_name,
    event_subject,
    live_subject,
    role_filters,
    rpc_subject,
    session_filter,
)
from kernelswarm.schemas import EVENTS, CandidateCompiled, CandidateProposed, InputError, event_tag

HOSTILE = ["", "*", ">", "a.b", "a b", "a\n", "a\r\nPUB x 0\r\n", "ä", "a/../b", "$JS", "x" * 129, "a\x00"]


def test_an_event_is_spoken_under_its_session_pool_and_tag():
    assert event_subject("rms-1", "cpu", "candidate.proposed.v1") == "ks.v1.rms-1.cpu.candidate-proposed-v1"


def test_every_tag_can_travel_and_no_two_share_a_subject():
    subjects = {event_subject("s", "cpu", event_tag(kind)) for kind in EVENTS.values()}
    assert len(subjects) == len(EVENTS)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_never_become_part_of_a_subject(name):
    for make in (
        lambda: event_subject(name, "cpu", "a.v1"),
        lambda: event_subject("s", name, "a.v1"),
        lambda: event_subject("s", "cpu", name if name != "a.b" else "A.b"),
        lambda: session_filter(name),
        lambda: role_filters("cpu", [], name),
        lambda: rpc_subject(name),
        lambda: live_subject("cpu", name),
        lambda: durable_name("cpu", name),
        lambda: durable_name("cpu", "compiler", name),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert len(str(caught.value)) < 250


def test_a_role_hears_the_kinds_it_answers_in_every_session_of_its_pool():
    assert role_filters("cpu", [CandidateProposed, CandidateCompiled, CandidateProposed]) == [
        "ks.v1.*.cpu.candidate-compiled-v1",
        "ks.v1.*.cpu.candidate-proposed-v1",
    ]


def test_the_recorder_hears_everything():
    assert role_filters(ANY, []) == ["ks.v1.>"]


def test_durable_names_of_different_roles_differ():
    names = {
        durable_name("cpu", "a"),
        durable_name("cpu-a", "b"),
        durable_name("cpu", "a-b"),
        durable_name(ANY, "a"),
        durable_name("cpu", "a", "b"),
        durable_name("cpu", "a", "b_c"),
    }
    assert len(names) == 6
    with pytest.raises(InputError, match="a_b"):
        durable_name("cpu", "a_b")
