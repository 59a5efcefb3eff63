"""Tokens of tasks: what proves that a node has issued one."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from rota.core.model.ids import ExecutionId, NodeId
from rota.core.timing.instants import Instant
from rota.node.access.attempt_identity import LENGTH_MAX, PREFIX, AttemptIdentity, issue, parse

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
CLUSTER = "c1"
IDENTITY = AttemptIdentity(
    node_id=NodeId("n1"),
    job="team-a/nightly",
    execution_id=ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0000"),
    task="main",
    attempt=1,
    fence="0" * 32,
    expires_at=Instant(1_800_000_000_000_000),
)
TOKEN = issue(IDENTITY, KEY, CLUSTER)


def is_proven(text: str, key: bytes = KEY, cluster: str = CLUSTER) -> bool:
    found = parse(text)
    return found is not None and found.is_proven(key, cluster)


def test_a_token_has_its_statement_and_proves_it() -> None:
    found = parse(TOKEN)

    assert found is not None
    assert found.identity == IDENTITY
    assert found.is_proven(KEY, CLUSTER)


def test_a_token_of_another_key_or_cluster_proves_nothing() -> None:
    assert not is_proven(TOKEN, key=OTHER_KEY)
    assert not is_proven(TOKEN, cluster="c2")


def test_a_node_without_a_key_has_issued_no_token() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        issue(IDENTITY, b"", CLUSTER)
    # HMAC fills a key up with zeros, so that this one makes the proofs of the empty one.
    assert not is_proven(issue(IDENTITY, b"\0", CLUSTER), key=b"")


def test_a_statement_with_another_meaning_has_another_proof() -> None:
    mac = urlsafe_b64decode(TOKEN[len(PREFIX) :] + "==")[:32]
    for change in (
        {"job": "team-b/nightly"},
        {"execution_id": ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0001")},
        {"task": "other"},
        {"attempt": 2},
        {"fence": "f" * 32},
        {"node_id": NodeId("n2")},
        {"expires_at": Instant(1_900_000_000_000_000)},
    ):
        altered = msgspec.msgpack.encode(msgspec.structs.replace(IDENTITY, **change))
        text = PREFIX + urlsafe_b64encode(mac + altered).decode().rstrip("=")
        found = parse(text)
        assert found is not None, change
        assert not found.is_proven(KEY, CLUSTER), change


@given(some.integers(len(PREFIX), len(TOKEN) - 1), some.characters(codec="utf-8"))
def test_a_token_with_another_character_proves_nothing(at: int, character: str) -> None:
    altered = TOKEN[:at] + character + TOKEN[at + 1 :]

    assert altered == TOKEN or not is_proven(altered)


@given(some.text() | some.binary().map(lambda some: urlsafe_b64encode(some).decode()))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert not is_proven(PREFIX + text)
    assert parse(text) is None or text.startswith(PREFIX)


@pytest.mark.parametrize(
    "text",
    ["", PREFIX, TOKEN[:-1], TOKEN + "=", TOKEN + "A", TOKEN[:40] + "." + TOKEN[40:],
     TOKEN.replace("rota_t_", "rota_k_"), PREFIX + "A" * LENGTH_MAX],
)  # fmt: skip
def test_a_text_of_another_form_is_no_token(text: str) -> None:
    assert not is_proven(text)


def test_the_longest_names_fit() -> None:
    longest = msgspec.structs.replace(
        IDENTITY,
        node_id=NodeId("n" * 128),
        job=f"{'a' * 128}/{'b' * 128}",
        task="t" * 128,
    )

    assert is_proven(issue(longest, KEY, CLUSTER))
