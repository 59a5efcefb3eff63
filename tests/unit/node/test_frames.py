"""Refusal of frames with invalid fields when they are decoded."""

from typing import Any

import msgspec
import pytest

from rota.core.model.ids import NAME_LENGTH_MAX, ShardId
from rota.core.timing.instants import LATEST_INSTANT
from rota.core.vocabulary.changes import Subscribe
from rota.core.vocabulary.commands import ReceiveMessage
from rota.node.links import frames
from rota.node.links.frames import Batch, Chunk, Garbage, Joining, Lane, Partials
from rota.node.peers.messages import ATTEMPTS_MAX, COMMANDS_MAX, Deliver
from unit.samples import SENT, fields_of

Fields = Any  # Any: the fields of messages, with values that no node sends.

MESSAGE = "letter"
"""Wire name of the message in `ReceiveMessage`."""
BAD: dict[str, list[tuple[str, object]]] = {
    "append": [
        ("configuration.epoch", -1),
        ("configuration.epoch", 1 << 63),
        ("configuration.primary", "n" * 129),
        ("configuration.sync", [["node-a", "a1"]] * 65),
        ("allocation", "a" * 65),
        ("previous", -1),
        ("previous_hash", b"short"),
        ("previous_hash", b"too long by far"),
        ("committed", 1 << 64 - 1),
        ("sent_at", -1),
        ("sent_at", LATEST_INSTANT + 1),
        ("sent_at", 1.5),
        ("beacon.0", -1),
        ("beacon.1", 1 << 62),
        ("beacon.6", -1),
        ("entries", [1]),
    ],
    "appended": [("match", -1), ("gives_lease", 1), ("allocation", None)],
    "part": [("number", -1), ("base.3", b""), ("rows.0.0", b""), ("is_last", "yes")],
    "carry": [
        ("number", -1),
        ("commands", []),
        ("commands.0.attempt.0", "job-1"),
        ("commands.0.attempt.0", "3f2a9c0011223344-0660c1a4f8fe40-0000\n"),
        ("commands.0.attempt.1", ""),
        ("commands.0.attempt.2", -1),
        ("commands.0.token.0", 1 << 63),
        ("commands.0.ending.1", LATEST_INSTANT + 1),
        ("commands.0.ending.2", -1),
        ("commands.1.report.0", 101),
        ("commands.1.report.1", bytes((64 << 10) + 1)),
        ("commands.2.sender", 1 << 16),
        ("commands.2.place", "p" * 1_025),
        (f"commands.2.{MESSAGE}.upstream", "no namespace"),
        (f"commands.2.{MESSAGE}.type", "no such message"),
    ],
    "ask_lease": [("attempts.0.0", ""), ("incarnation", -1), ("sent_at", float("nan"))],
    "dispatch": [
        ("order.key.0", "x"),
        ("order.key.1", "../../task"),
        ("order.key.0", "3f2a9c0011223344-0660c1a4f8fe40-000g"),
        ("order.token.1", -1),
        ("order.fire_at", 1 << 62),
        ("order.session", "s" * 65),
        ("order.work.6", -5),
        ("order.work.10", [float("nan")]),
        ("order.work.10", [-0.5]),
        ("order.work.10", [float("inf")]),
        ("order.work.10", [1.0, -1]),
    ],
    "ask_slots": [("count", -1), ("count", 1 << 63)],
    "lend_slots": [("count", -1), ("number", -1)],
    "return_slots": [("count", -1)],
}
CASES = [(tag, path, value) for tag, cases in BAD.items() for path, value in cases]


def with_field(fields: Fields, path: str, value: object) -> Fields:
    """Return *fields* with another value at *path*; a list is filled up to it."""
    step, _, rest = path.partition(".")
    if not isinstance(fields, list):
        return {**fields, step: with_field(fields[step], rest, value) if rest else value}
    filled: list[Fields] = [*fields]
    at = int(step)
    if at >= len(filled):
        filled += [default for _, default in WORK[len(filled) : at + 1]]
    filled[at] = with_field(filled[at], rest, value) if rest else value
    return filled


WORK: list[tuple[str, object]] = [
    *(("executor", "process"), ("argv", []), ("shell", "true"), ("env", []), ("cwd", "")),
    *(("stdin", ""), ("timeout", 0), ("stop_grace", 0), ("parameters", "")),
    *(("sandbox", []), ("limits", [])),
]


def message(tag: str) -> Fields:
    return next(fields for each in SENT if (fields := fields_of(each))["type"] == tag)


@pytest.mark.parametrize(("tag", "path", "value"), CASES)
def test_a_message_with_an_impossible_field_is_garbage(tag: str, path: str, value: object) -> None:
    sound = message(tag)
    frame = msgspec.msgpack.encode([0, [[1, with_field(sound, path, value)]]])

    frames.decode(msgspec.msgpack.encode([0, [[1, sound]]]))
    with pytest.raises(Garbage):
        frames.decode(frame)


@pytest.mark.parametrize(
    ("tag", "field", "most"),
    [("carry", "commands", COMMANDS_MAX), ("ask_lease", "attempts", ATTEMPTS_MAX)],
)
def test_a_message_with_too_long_a_list_is_garbage(tag: str, field: str, most: int) -> None:
    sound = message(tag)
    [one, *_] = sound[field]
    frame = msgspec.msgpack.encode([0, [[1, {**sound, field: [one] * (most + 1)}]]])

    frames.decode(msgspec.msgpack.encode([0, [[1, {**sound, field: [one] * most}]]]))
    with pytest.raises(Garbage):
        frames.decode(frame)


def test_a_message_between_jobs_with_the_longest_names_is_taken() -> None:
    full = f"{'n' * NAME_LENGTH_MAX}/{'j' * NAME_LENGTH_MAX}"
    message = Subscribe(upstream=full, dependent=full)
    place = (
        f"{1:016x}/{1:014x}/{1:04x} {full} {full} {full}"  # As `rota.core.decide.outbox` makes it.
    )
    carry = Deliver(
        number=1, commands=(ReceiveMessage(message=message, sender=ShardId(3), outbox_key=place),)
    )

    frame = frames.batch_of([frames.encode_item(ShardId(1), carry)])

    assert frames.decode(frame) == Batch(items=[(ShardId(1), carry)])


@pytest.mark.parametrize(
    "frame",
    [
        msgspec.msgpack.encode([0, [[1 << 16, message("fenced")]]]),
        msgspec.msgpack.encode([0, [[-1, message("fenced")]]]),
        msgspec.msgpack.encode([0, [[1, message("fenced")]] * (frames.BATCH_MAX + 1)]),
        msgspec.msgpack.encode([2, -1]),
        msgspec.msgpack.encode([3, float("nan")]),
        msgspec.msgpack.encode([1, 2, False, b""]),
        b"\x92\x00" + b"\x91" * 100_000,
        b"\x92\x00\x91\x92\x01\x81\xa4type\xa6\xff\xff\xff\xff\xff\xff",
        b"\x92\x00\x91\x92\x01\x82\xa4type\xa6fenced\xa5epoch\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x92\x00\xc1",
        b"\x92\x02\x01 and more",
    ],
    ids=[
        *("shard", "negative shard", "many", "negative ping", "pong", "lane"),
        *("deep", "no UTF-8", "uint64", "never used", "more"),
    ],
)
def test_an_impossible_frame_is_garbage(frame: bytes) -> None:
    with pytest.raises(Garbage):
        frames.decode(frame)


def test_the_last_of_two_values_of_one_field_counts_and_is_checked() -> None:
    twice = b"\x92\x00\x91\x92\x01\x83\xa4type\xa6fenced\xa5epoch\x01\xa5epoch"

    assert frames.decode(twice + b"\x02") == frames.decode(
        frames.batch_of(
            [frames.encode_item(ShardId(1), next(m for m in SENT if is_fenced(m)))]
        ).replace(b"epoch\x08", b"epoch\x02")
    )
    with pytest.raises(Garbage):
        frames.decode(twice + b"\xff")


def is_fenced(each: object) -> bool:
    return bool(fields_of(each)["type"] == "fenced")


# -- incomplete messages ---------------------------------------------------------------------------


def test_incomplete_messages_of_all_links_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PARTIAL_BYTES_MAX", 1_000)
    partials = Partials()
    links = [Joining(partials) for _ in range(3)]
    piece = Chunk(Lane.BULK, is_last=False, piece=bytes(400))
    for link in links[:2]:
        link.add(piece)

    with pytest.raises(Garbage, match="incomplete messages of all links"):
        links[2].add(piece)
    before = partials.size
    links[0].close()
    links[2].add(piece)

    assert (before, partials.size) == (800, 800)


def test_a_complete_message_takes_no_room() -> None:
    partials = Partials()
    item = frames.encode_item(ShardId(1), SENT[0])
    joining = Joining(partials)

    joining.add(Chunk(Lane.ORDERED, is_last=False, piece=item[:10]))
    half = partials.size
    joining.add(Chunk(Lane.ORDERED, is_last=True, piece=item[10:]))

    assert (half, partials.size) == (10, 0)
