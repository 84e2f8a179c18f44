"""What every log keeps, however it is used between two calls: inherit it and say how a log is made."""

import msgspec
import pytest
from story import story, wire

from given import envelope_of
from kernelswarm.schemas import Envelope, StopRequested, encode
from kernelswarm.store import Log

SPELLED_OTHERWISE = (
    b'{ "id":"x1", "session":"s1","pool":"cpu","node":"","cause":"","agent":"user","worker":"w","at_ns":5,'
    b'"new_field":[1], "body":{"tag":"session.stop_requested.v1", "reason":"\\u00fcser", "later":1.50} }'
)


class LogContract:
    """The tests; ``again`` gives the log that a later call would find."""

    @pytest.fixture
    def log(self) -> Log:
        raise NotImplementedError

    def again(self, log: Log) -> Log:
        return log

    def test_what_is_written_is_read_byte_for_byte(self, log: Log) -> None:
        envelopes = story()
        assert log.append(wire(envelopes), stream="a") == len(envelopes)
        log = self.again(log)
        assert [(seq, encode(envelope)) for seq, envelope in log.read()] == wire(envelopes)
        assert len(log) == len(envelopes)
        assert log.last_seq("a") == len(envelopes)
        assert log.verify().ok

    def test_reading_takes_a_session_a_place_and_a_limit(self, log: Log) -> None:
        first, second = story("one"), story("two")
        log.append(wire(first))
        log.append(wire(second, len(first) + 1))
        assert [envelope.id for _, envelope in log.read(session="two", after=len(first) + 2, limit=3)] == [
            envelope.id for envelope in second[2:5]
        ]

    def test_an_id_is_written_once_whatever_stream_brings_it(self, log: Log) -> None:
        events = [envelope_of(StopRequested(reason="user"), index=index) for index in range(4)]
        assert log.append(wire([events[0], events[1], events[0]]), stream="a") == 2
        log = self.again(log)
        assert log.append(wire([events[1], events[2]], 4), stream="a") == 1
        log = self.again(log)
        assert log.append(wire(events), stream="recreated") == 1
        log = self.again(log)
        assert [envelope.id for _, envelope in log.read()] == [envelope.id for envelope in events]
        assert (log.last_seq("a"), log.last_seq("recreated"), log.last_seq("other")) == (5, 4, 0)
        assert log.verify().ok

    def test_sequences_that_were_passed_are_dropped(self, log: Log) -> None:
        events = [envelope_of(StopRequested(reason="user"), index=index) for index in range(4)]
        log.append(wire(events[:3]), stream="a")
        log = self.again(log)
        assert log.append([(2, encode(events[3]))], stream="a") == 0
        assert log.append([(4, encode(events[3]))], stream="a") == 1

    def test_an_event_of_a_later_version_is_kept(self, log: Log) -> None:
        later = envelope_of(StopRequested(reason="user"))
        later = msgspec.structs.replace(later, body=msgspec.Raw(b'{"tag":"node.dreamt.v12","x":[1]}'))
        assert log.append([(1, encode(later))]) == 1
        log = self.again(log)
        with log.cursor() as cursor:
            assert cursor.execute("SELECT tag, schema_version, body->'$.x' FROM events").fetchall() == [
                ("node.dreamt.v12", 12, "[1]")
            ]

    def test_another_spelling_is_kept_as_it_was(self, log: Log) -> None:
        log.append([(1, SPELLED_OTHERWISE)])
        log = self.again(log)
        with log.cursor() as cursor:
            wire, reason = cursor.execute("SELECT wire, body->>'$.reason' FROM events").fetchone()
        assert wire.encode() == SPELLED_OTHERWISE
        assert reason == "üser"
        assert log.verify().ok

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"not json",
            b"\xff\xfe",
            b"{}",
            encode(envelope_of(StopRequested(reason="user"))).replace(b'"user"', b"7"),
            encode(envelope_of(StopRequested(reason="user"))).replace(b'"user"', b'"\\ud800"'),
            encode(envelope_of(StopRequested(reason="user"), at_ns=-1)),
            encode(envelope_of(StopRequested(reason="user"), at_ns=2**63)),
            encode(envelope_of(StopRequested(reason="user"))).replace(b'"tag"', b'"gat"'),
        ],
    )
    def test_what_is_no_event_is_passed_over_and_said(
        self, log: Log, data: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        good: Envelope = envelope_of(StopRequested(reason="user"), index=9)
        assert log.append([(7, data), (8, encode(good))], stream="a") == 1
        assert "message 7 of the stream is no event" in caplog.text
        log = self.again(log)
        assert [envelope.id for _, envelope in log.read()] == [good.id]
        assert log.last_seq("a") == 8

    def test_strings_that_are_awkward_survive(self, log: Log) -> None:
        odd = envelope_of(StopRequested(reason="nul \0 quote ' \" snow \u2603 \U0001f4a1"))
        log.append([(1, encode(odd))])
        log = self.again(log)
        assert log.read()[0][1].event() == odd.event()
        assert log.verify().ok
