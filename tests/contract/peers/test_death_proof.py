"""Proofs of death from other nodes' wardens: accepted and refused ones."""

from collections.abc import AsyncGenerator

import aiohttp
import msgspec
import pytest

from contract.executor.executor_host import EXECUTION_ID
from contract.peers.networks import A, B, End, acquaint, dialled, greet, introduce, until
from rota.core.model.attempt import AttemptKey
from rota.core.model.ids import NodeId, Session
from rota.executor.warden.messages import HELD_KEYS_MAX, CertificateFiles, OnDeathRequest
from rota.executor.warden.on_death_requests import post_all
from rota.node.cluster.death_notice import DeathNotice
from rota.node.coordination.prepared_request import CertificatePaths, PreparedRequest
from rota.node.links.link_table import LIVES_MAX
from rota.node.peers.death_proof import PATH, DeathProof, encode, life_of

SESSION = Session("5e55")


class Warden:
    """A warden that keeps the latest requests of its node."""

    def __init__(self) -> None:
        self.requests: tuple[OnDeathRequest, ...] = ()

    def set_on_death(self, *requests: OnDeathRequest) -> None:
        """Keep requests."""
        self.requests = requests


@pytest.fixture
async def ends() -> AsyncGenerator[tuple[End, End]]:
    """Nodes a and b, linked."""
    async with End(A).living() as one, End(B).living() as other:
        acquaint(one, other)
        await until(lambda: bool(one.links.peers and other.links.peers))
        yield one, other


def proof_of(end: End, **fields: str) -> DeathProof:
    """Return a proof that the process behind *end* has ended."""
    true = DeathProof(
        cluster=end.credentials.cluster, node_id=end.id, session=SESSION, secret=end.secret
    )
    return msgspec.convert({**msgspec.to_builtins(true), **fields}, DeathProof)


async def post_proof(end: End, proof: bytes, left: object = ()) -> int:
    """Send a proof to a node, as a warden does, and return the status of the answer."""
    posted = msgspec.msgpack.encode((proof, left))
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{end.port}{PATH}", data=posted) as answer,
    ):
        return answer.status


async def test_the_death_notice_of_a_node_proves_its_death_to_the_others(
    ends: tuple[End, End],
) -> None:
    one, other = ends
    warden = Warden()
    files = CertificatePaths("ca.pem", "node.pem", "node.key")
    end = PreparedRequest(("https://127.0.0.1:1/revoke",), b"session", {"X-Token": "t"}, files)
    notice = DeathNotice(warden, lambda session: end, cluster="c", node_id=A, secret=one.secret)
    notice.set_members({end.id: end.member() for end in ends})
    before_its_session = warden.requests
    notice.begin_session(SESSION)
    revoking, *to_peers = warden.requests

    await post_all(to_peers)

    assert before_its_session == ()
    assert revoking == OnDeathRequest(
        end.urls, end.body, dict(end.headers), certificates=CertificateFiles(*files)
    )
    assert other.deaths == [(A, SESSION)]
    assert one.deaths == []


@pytest.mark.parametrize(
    ("count", "is_listed"),
    [(0, True), (2, True), (HELD_KEYS_MAX, True), (HELD_KEYS_MAX + 1, False)],
)
async def test_a_proof_lists_the_attempts_that_the_warden_holds_up_to_a_limit(
    ends: tuple[End, End], count: int, *, is_listed: bool
) -> None:
    one, other = ends
    warden = Warden()
    notice = DeathNotice(
        warden,
        lambda session: PreparedRequest((), b"", {}),
        cluster="c",
        node_id=A,
        secret=one.secret,
    )
    notice.set_members({end.id: end.member() for end in ends})
    notice.begin_session(SESSION)
    held = [AttemptKey(EXECUTION_ID, "task", number) for number in range(count)]

    await post_all(warden.requests[1:], held)

    assert other.deaths == [(A, SESSION)]
    assert other.left == (frozenset(held) if is_listed else None)


async def test_a_death_notice_follows_the_session_and_the_members() -> None:
    warden = Warden()
    notice = DeathNotice(
        warden,
        lambda session: PreparedRequest((session,), b"", {}),
        cluster="c",
        node_id=A,
        secret="a",
    )

    notice.begin_session(Session("first"))
    alone = warden.requests
    notice.set_members({A: End(A).member(1), B: End(B).member(2)})
    notice.begin_session(Session("second"))

    assert [each.urls for each in alone] == [("first",)]
    assert [each.urls for each in warden.requests] == [
        ("second",),
        (f"http://127.0.0.1:2{PATH}",),
    ]


async def test_a_proof_is_accepted_after_the_end_of_the_link(ends: tuple[End, End]) -> None:
    one, other = ends
    other.links.set_members({})
    one.links.set_members({})
    await until(lambda: other.links.peers == ())

    status = await post_proof(other, encode(proof_of(one)))

    assert (status, other.deaths) == (204, [(A, SESSION)])


async def test_a_repeated_proof_is_accepted_again(ends: tuple[End, End]) -> None:
    one, other = ends

    statuses = [await post_proof(other, encode(proof_of(one))) for _ in range(2)]

    assert statuses == [204, 204]
    assert set(other.deaths) == {(A, SESSION)}


@pytest.mark.parametrize(
    "wrong",
    [{"secret": "of another"}, {"cluster": "another"}, {"node_id": B}, {"node_id": "c"}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_a_proof_of_a_process_without_a_former_link_is_refused(
    ends: tuple[End, End], wrong: dict[str, str]
) -> None:
    one, other = ends

    status = await post_proof(other, encode(proof_of(one, **wrong)))

    assert (status, other.deaths) == (403, [])


async def test_a_proof_does_not_end_the_session_of_a_later_life(ends: tuple[End, End]) -> None:
    one, other = ends
    proof = encode(proof_of(one))
    later = End(A)
    later.credentials = msgspec.structs.replace(later.credentials, life=life_of("another"))
    async with later.living():
        introduce(later, other)
        await until(lambda: bool(later.links.peers))

        status = await post_proof(other, proof)

    # The proof names its session, which the later life does not have.
    assert (status, other.deaths) == (204, [(NodeId("a"), SESSION)])


@pytest.mark.parametrize("links_of_the_last", [1, LIVES_MAX + 1])
async def test_proofs_of_the_last_lives_of_a_node_are_accepted_however_often_each_linked(
    links_of_the_last: int,
) -> None:
    secrets = [f"secret {number}" for number in range(LIVES_MAX + 1)]
    async with End(B).living() as other:
        introduce(other, End(A))
        for secret in [*secrets, *([secrets[-1]] * (links_of_the_last - 1))]:
            await link(other, secret)

        statuses = [
            await post_proof(other, encode(proof_of(End(A), secret=each))) for each in secrets
        ]

    assert statuses == [403, *([204] * LIVES_MAX)]


async def link(other: End, secret: str) -> None:
    """Link with *other* briefly, as the process of node a with *secret*."""
    one = End(A)
    one.credentials = msgspec.structs.replace(one.credentials, life=life_of(secret))
    async with dialled(other.port) as socket:
        await greet(socket, one, other)
        await until(lambda: other.links.peers == (A,))
    await until(lambda: other.links.peers == ())


async def test_a_malformed_proof_is_refused(ends: tuple[End, End]) -> None:
    _, other = ends

    assert await post_proof(other, b"what") == 400
    assert await post_proof(other, encode(proof_of(other)), left="what") == 400
    assert other.deaths == []
