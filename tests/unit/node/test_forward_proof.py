"""Proofs of forwarded requests: accepted once, from a member, for exactly one request."""

from dataclasses import replace
from hashlib import sha256

import msgspec
import pytest

from rota.core.model.ids import NodeId
from rota.node.links.forward_proof import NUMBERS_KEPT, ForwardProofs
from rota.node.links.identity_proof import PeerCredentials
from rota.node.peers.peer_apis import PEER, RequestHead
from support.forwarding_nodes import credentials_of, record_of

SENDER, RECEIVER, THIRD = (credentials_of(name) for name in ("n1", "n2", "n3"))
BODY = b'{"command":"true"}'
HEAD = RequestHead("POST", "/api/v1/jobs?dryRun=true", {"Rota-Items": "1", "Rota-Principal": "{}"})


def node(ours: PeerCredentials, *others: PeerCredentials) -> ForwardProofs:
    """Return the proofs of a process that has the records of the others."""
    proofs = ForwardProofs(ours)
    proofs.set_members({each.node_id: record_of(each) for each in (ours, *others)})
    return proofs


def signed(head: RequestHead, value: str) -> RequestHead:
    """Return a head with a proof."""
    return replace(head, headers={**head.headers, PEER: value})


@pytest.fixture
def sender() -> ForwardProofs:
    return node(SENDER, RECEIVER)


@pytest.fixture
def receiver() -> ForwardProofs:
    return node(RECEIVER, SENDER, THIRD)


def proof(sender: ForwardProofs) -> str:
    """Return the proof of the request to the receiver."""
    return sender.prove(record_of(RECEIVER), HEAD, BODY)


def test_a_request_of_a_member_is_proven_with_its_sender_and_the_digest_of_its_body(
    sender: ForwardProofs, receiver: ForwardProofs
) -> None:
    assert receiver.proven(signed(HEAD, proof(sender))) == ("n1", sha256(BODY).hexdigest())


def test_a_proof_is_accepted_once(sender: ForwardProofs, receiver: ForwardProofs) -> None:
    head = signed(HEAD, proof(sender))

    assert receiver.proven(head) is not None
    assert receiver.proven(head) is None


def test_proofs_are_accepted_in_any_order(sender: ForwardProofs, receiver: ForwardProofs) -> None:
    made = [signed(HEAD, proof(sender)) for _ in range(100)]

    assert all(receiver.proven(each) for each in reversed(made))


def test_a_proof_that_is_too_old_to_know_its_use_is_refused(
    sender: ForwardProofs, receiver: ForwardProofs
) -> None:
    old, *_, new = [proof(sender) for _ in range(NUMBERS_KEPT + 1)]

    assert receiver.proven(signed(HEAD, new)) is not None
    assert receiver.proven(signed(HEAD, old)) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(HEAD, method="PUT"),
        replace(HEAD, target="/api/v1/jobs"),
        replace(HEAD, headers={**HEAD.headers, "Rota-Principal": '{"name":"admin"}'}),
        replace(HEAD, headers={"Rota-Items": "1"}),
        replace(HEAD, headers={**HEAD.headers, "rota-kept": "1"}),
        replace(HEAD, headers={"Rota-Items": "1Rota-Principal", "": "{}"}),
    ],
    ids=["method", "target", "principal", "less", "more", "joined"],
)
def test_a_proof_is_not_valid_for_another_request(
    sender: ForwardProofs, receiver: ForwardProofs, other: RequestHead
) -> None:
    value = proof(sender)

    assert receiver.proven(signed(other, value)) is None
    assert receiver.proven(signed(HEAD, value)) is not None


def test_no_part_of_a_proof_can_be_changed(sender: ForwardProofs, receiver: ForwardProofs) -> None:
    node_id, number, digest, mac = proof(sender).split()

    for forged in (
        f"n3 {number} {digest} {mac}",
        f"{node_id} {int(number) + 1} {digest} {mac}",
        f"{node_id} {number} {'0' * 64} {mac}",
        f"{node_id} {number} {digest} {'0' * 64}",
        f"{node_id} {number} {digest} {mac[:-1]}",
        f"{node_id} {number} {digest}",
        "",
    ):
        assert receiver.proven(signed(HEAD, forged)) is None, forged


def test_names_of_headers_count_in_any_case(sender: ForwardProofs, receiver: ForwardProofs) -> None:
    lower = replace(HEAD, headers={name.lower(): text for name, text in HEAD.headers.items()})

    assert receiver.proven(signed(lower, proof(sender))) is not None


def test_a_proof_for_another_receiver_is_refused(
    sender: ForwardProofs, receiver: ForwardProofs
) -> None:
    restarted = credentials_of("n2", process=2)

    for other in (record_of(THIRD), record_of(restarted)):
        assert receiver.proven(signed(HEAD, sender.prove(other, HEAD, BODY))) is None


@pytest.mark.parametrize(
    "forger",
    [
        credentials_of("n1", process=2),
        credentials_of("n1", cluster="another"),
        msgspec.structs.replace(SENDER, store_id="another"),
        credentials_of("n9"),
    ],
    ids=["key", "cluster", "data directory", "no member"],
)
def test_a_proof_of_another_identity_is_refused(
    receiver: ForwardProofs, forger: PeerCredentials
) -> None:
    value = node(forger).prove(record_of(RECEIVER), HEAD, BODY)

    assert receiver.proven(signed(HEAD, value)) is None


def test_a_member_without_a_key_proves_nothing(receiver: ForwardProofs) -> None:
    keyless = msgspec.structs.replace(SENDER, key=b"")
    receiver.set_members({NodeId("n1"): record_of(keyless)})

    value = ForwardProofs(keyless).prove(record_of(RECEIVER), HEAD, BODY)

    assert receiver.proven(signed(HEAD, value)) is None


def test_a_restarted_member_begins_its_numbers_again(
    sender: ForwardProofs, receiver: ForwardProofs
) -> None:
    assert receiver.proven(signed(HEAD, proof(sender))) is not None
    restarted = credentials_of("n1", process=2)

    receiver.set_members({each.node_id: record_of(each) for each in (restarted, RECEIVER)})

    value = node(restarted).prove(record_of(RECEIVER), HEAD, BODY)
    assert receiver.proven(signed(HEAD, value)) is not None
    assert receiver.proven(signed(HEAD, proof(sender))) is None
