"""The author of a change: the caller, and the address at which the first node saw the client."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rota.core.model.author import (
    ADDRESS_LENGTH_MAX,
    KEY_LENGTH_MAX,
    PRINCIPAL_LENGTH_MAX,
    Author,
)
from rota.core.model.ids import NodeId
from rota.node.access.grants import Grants
from rota.node.access.principal import Principal
from rota.node.api.handlers.idempotency import idempotency_under
from rota.node.api.requests.authors import author_of, client_address
from rota.node.api.requests.node_headers import CLIENT_ADDRESS
from rota.node.api.requests.request_context import RequestContext
from support.request_contexts import without_node

ALICE = Principal(name="alice", grants=Grants(()), key_id="3fGh81Qz")


class Transport:
    """A connection from an address."""

    def __init__(self, peer: object) -> None:
        self.peer = peer

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the address of the client."""
        return self.peer if name == "peername" else default


def http(peer: object = ("10.0.0.7", 1234), **headers: str) -> web.Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request("POST", "/", headers=named, transport=Transport(peer))


def forwarded(**headers: str) -> RequestContext:
    """Return a request that another node has forwarded."""
    request = without_node(http(**headers))
    request.sender = NodeId("n2")
    return request


def test_the_author_is_the_principal_with_the_request_and_the_address() -> None:
    author = author_of(without_node(http(), ALICE))

    assert author == Author(
        principal="alice", key="3fGh81Qz", request="request", address="10.0.0.7"
    )


def of_issuer(subject: str) -> Principal:
    """Return a caller with the name ``corp/ana``."""
    return Principal(
        name="corp/ana", grants=Grants(()), subjects=(f"sub:corp/{subject}",), issuer="corp"
    )


def test_callers_of_an_issuer_with_one_name_are_told_apart_by_their_subjects() -> None:
    long = "u" * 190
    subjects = ["u1", "u2", f"{long}1", f"{long}2"]

    authors = [author_of(without_node(http(), of_issuer(each))) for each in subjects]
    keys = [idempotency_under(without_node(http(), of_issuer(each)), "k", "") for each in subjects]

    assert {each.principal for each in authors} == {"corp/ana"}
    assert [each.key for each in authors[:2]] == ["sub:corp/u1", "sub:corp/u2"]
    assert len({each.key for each in authors}) == 4
    assert all(len(each.key) <= KEY_LENGTH_MAX for each in authors)
    assert len({each.scoped_key for each in keys}) == 4


def test_a_forwarded_request_has_the_address_that_the_first_node_saw() -> None:
    request = forwarded(**{CLIENT_ADDRESS: "192.0.2.1"})

    assert client_address(request) == "192.0.2.1"


def test_a_client_cannot_give_another_address() -> None:
    request = without_node(http(**{CLIENT_ADDRESS: "192.0.2.1", "X_Forwarded_For": "192.0.2.1"}))

    assert client_address(request) == "10.0.0.7"


@pytest.mark.parametrize("peer", ["", None], ids=["unix socket", "closed connection"])
def test_a_client_without_an_address_has_none(peer: object) -> None:
    assert client_address(without_node(http(peer))) == ""


def test_an_address_that_is_not_ascii_is_dropped() -> None:
    request = forwarded(**{CLIENT_ADDRESS: "\xe9"})

    assert client_address(request) == ""


def test_long_texts_are_cut() -> None:
    request = forwarded(**{CLIENT_ADDRESS: "x" * 1_000})
    request.principal = Principal(name="p" * 1_000, grants=Grants(()), key_id="k" * 1_000)

    author = author_of(request)

    assert (len(author.principal), len(author.key), len(author.address)) == (
        PRINCIPAL_LENGTH_MAX,
        KEY_LENGTH_MAX,
        ADDRESS_LENGTH_MAX,
    )
