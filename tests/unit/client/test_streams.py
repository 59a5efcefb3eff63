"""Streams that are resumed after a lost connection: their requests and the events they yield."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.client.errors import NodeFailed, OutputBroken
from rota.client.requests import EventFilter
from rota.client.streams.events import LINE_BYTES_MAX, EventReader
from rota.client.streams.output import FollowedOutput
from rota.client.transport.call import Call


def line(number: int, kind: str = "job.created") -> bytes:
    event = {"id": f"life-{number}", "type": kind, "at": "2027-01-01T00:00:00.000000Z"}
    return json.dumps(event).encode() + b"\n"


def reader(after: str = "") -> EventReader:
    reader = EventReader(EventFilter(), after)
    reader.next_call()
    return reader


def types(reader: EventReader, part: bytes) -> list[str]:
    return [event.type for event in reader.read(part)]


def asked_after(reader: EventReader) -> str:
    return reader.next_call().headers.get("Last-Event-ID", "")


# -- events ----------------------------------------------------------------------------------------


@given(st.integers(1, 200))
def test_events_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    content = line(0, "stream.opened") + b"\n" + line(1) + b"\n" + line(2, "task.running")
    events = reader()

    kinds = [
        event.type
        for start in range(0, len(content), size)
        for event in events.read(content[start : start + size])
    ]

    assert kinds == ["stream.opened", "job.created", "task.running"]


def test_a_reader_begins_now_or_after_the_event_that_it_was_given() -> None:
    assert asked_after(reader()) == ""
    assert asked_after(reader("life-7")) == "life-7"


def test_a_stream_is_resumed_after_the_last_whole_event() -> None:
    events = reader()
    list(events.read(line(1) + line(2)[:-5]))

    assert asked_after(events) == "life-1"
    assert types(events, line(2)) == ["job.created"]


def test_the_opening_of_a_further_connection_is_not_yielded_and_not_resumed_from() -> None:
    events = reader()
    list(events.read(line(0, "stream.opened") + line(1)))
    events.next_call()

    kinds = types(events, line(9, "stream.opened"))

    assert kinds == []
    assert asked_after(events) == "life-1"


def test_a_gap_is_yielded_and_resumed_from() -> None:
    events = reader()
    list(events.read(line(0, "stream.opened")))

    assert types(events, line(5, "stream.gap")) == ["stream.gap"]
    assert asked_after(events) == "life-5"


@pytest.mark.parametrize("word", ["stream.dropped", "stream.closed"])
def test_the_last_event_of_a_connection_is_not_yielded_but_resumed_from(word: str) -> None:
    events = reader()

    assert types(events, line(3, word)) == []
    assert asked_after(events) == "life-3"


def test_a_line_that_is_no_event_is_the_nodes_failure() -> None:
    with pytest.raises(NodeFailed, match="check that the URL is that of a rota node"):
        list(reader().read(b"<html>\n"))


def test_an_id_that_no_header_can_carry_is_refused() -> None:
    strange = line(1).replace(b"life-1", b"life\\r\\nx")

    with pytest.raises(NodeFailed, match="the id of an event is"):
        list(reader().read(strange))


def test_a_line_without_end_is_not_collected_for_ever() -> None:
    events = reader()

    assert types(events, b"x" * LINE_BYTES_MAX) == []
    with pytest.raises(NodeFailed, match="a line of over"):
        list(events.read(b"x"))


# -- output ----------------------------------------------------------------------------------------


def followed() -> FollowedOutput:
    output = FollowedOutput(Call("GET", "/", bytes))
    output.next_call()
    return output


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(1, 9))
def test_output_comes_once_however_often_the_connection_is_lost(
    content: bytes, lost_after: int, size: int
) -> None:
    output = followed()
    got = output.new_of(content[:lost_after])
    output.next_call()

    for start in range(0, len(content), size):
        got += output.new_of(content[start : start + size])
    output.end()

    assert got == content


@pytest.mark.parametrize("kept", [b"other", b"othe", b"yy", b""])
def test_output_that_begins_otherwise_than_before_is_refused(kept: bytes) -> None:
    output = followed()
    output.new_of(b"begun")
    output.next_call()

    def read_on() -> None:
        output.new_of(kept)
        output.end()

    with pytest.raises(OutputBroken, match="after 5 bytes"):
        read_on()
