"""Every event is frozen, documented, tagged and survives the wire."""

import math
from pathlib import Path

import msgspec
import pytest

import given
from kernelswarm import schemas
from kernelswarm.schemas import EVENTS, Envelope, StopRequested, decode_envelope, encode, event_id, seal

SCHEMAS = Path(schemas.__file__).parent


@pytest.mark.parametrize("tag", EVENTS)
def test_tags_name_family_deed_and_version(tag: str) -> None:
    family, deed, version = tag.split(".")
    assert family.isidentifier() and deed.isidentifier() and version[0] == "v" and version[1:].isdecimal()
    assert EVENTS[tag].__struct_config__.frozen
    assert EVENTS[tag].__doc__


def test_every_event_is_imported_from_the_package() -> None:
    assert {kind.__name__ for kind in EVENTS.values()} <= set(vars(schemas))


@pytest.mark.parametrize("path", sorted((SCHEMAS / "events").glob("*.py")), ids=lambda path: path.stem)
def test_one_family_a_file_stays_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 120


def test_an_opening_event_survives_the_wire() -> None:
    event = given.opened(candidates=("def kernel(x): return x",))
    envelope = decode_envelope(encode(given.envelope_of(event)))
    assert envelope.event() == event
    assert envelope.tag == "session.opened.v1"


def test_a_newer_tag_is_skipped_not_fatal() -> None:
    envelope = given.envelope_of(StopRequested(reason="user"))
    newer = msgspec.structs.replace(envelope, body=msgspec.Raw(b'{"tag":"session.moved.v7","where":1}'))
    read = decode_envelope(encode(newer))
    assert read.event() is None and read.tag == "session.moved.v7"


def test_a_newer_field_is_ignored() -> None:
    raw = msgspec.Raw(b'{"tag":"session.stop_requested.v1","reason":"user","mood":"calm"}')
    assert msgspec.structs.replace(given.envelope_of(StopRequested(reason="x")), body=raw).event() == StopRequested(
        reason="user"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_floats_are_refused_with_their_place(value: float) -> None:
    with pytest.raises(ValueError, match=r"fitness"):
        seal(msgspec.structs.replace(given.diagnosed(), fitness=value), **_ids())  # type: ignore[arg-type]


def _ids() -> dict[str, object]:
    return dict(session="s", pool="cpu", node="", cause="", agent="a", worker="w", at_ns=1)


def test_ids_depend_on_cause_and_place_not_on_time() -> None:
    first, second = (seal(StopRequested(reason="user"), **(_ids() | dict(at_ns=at))) for at in (1, 2))  # type: ignore[arg-type]
    assert first.id == second.id != event_id("s", "", "session.stop_requested.v1", 1)
    assert isinstance(first, Envelope)
