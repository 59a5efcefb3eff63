"""Whose word a node takes for it that the process of another one has ended."""

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
    """A warden as far as its node knows it: it keeps the newest will."""

    def __init__(self) -> None:
        self.letters: tuple[OnDeathRequest, ...] = ()

    def set_on_death(self, *letters: OnDeathRequest) -> None:
        """Keep letters."""
        self.letters = letters


@pytest.fixture
async def ends() -> AsyncGenerator[tuple[End, End]]:
    """Nodes a and b, linked."""
    async with End(A).living() as one, End(B).living() as other:
        acquaint(one, other)
        await until(lambda: bool(one.links.peers and other.links.peers))
        yield one, other


def news_of(end: End, **fields: str) -> DeathProof:
    """Return the news that the process behind *end* has ended."""
    true = DeathProof(
        cluster=end.credentials.cluster, node_id=end.id, session=SESSION, secret=end.secret
    )
    return msgspec.convert({**msgspec.to_builtins(true), **fields}, DeathProof)


async def told(end: End, news: bytes, left: object = ()) -> int:
    """Tell a node, as a warden does, and return the status of its answer."""
    posted = msgspec.msgpack.encode((news, left))
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{end.port}{PATH}", data=posted) as answer,
    ):
        return answer.status


async def test_the_last_will_of_a_node_proves_its_death_to_the_others(
    ends: tuple[End, End],
) -> None:
    one, other = ends
    warden = Warden()
    files = CertificatePaths("ca.pem", "node.pem", "node.key")
    end = PreparedRequest(("https://127.0.0.1:1/revoke",), b"session", {"X-Token": "t"}, files)
    will = DeathNotice(warden, lambda session: end, cluster="c", node_id=A, secret=one.secret)
    will.set_members({end.id: end.member() for end in ends})
    before_its_session = warden.letters
    will.begin_session(SESSION)
    revoking, *to_peers = warden.letters

    await post_all(to_peers)

    assert before_its_session == ()
    assert revoking == OnDeathRequest(
        end.urls, end.body, dict(end.headers), certificates=CertificateFiles(*files)
    )
    assert other.deaths == [(A, SESSION)]
    assert one.deaths == []


@pytest.mark.parametrize(
    ("count", "is_told"), [(0, True), (2, True), (HELD_KEYS_MAX, True), (HELD_KEYS_MAX + 1, False)]
)
async def test_what_the_warden_holds_comes_with_it_unless_that_is_too_much(
    ends: tuple[End, End], count: int, *, is_told: bool
) -> None:
    one, other = ends
    warden = Warden()
    will = DeathNotice(
        warden,
        lambda session: PreparedRequest((), b"", {}),
        cluster="c",
        node_id=A,
        secret=one.secret,
    )
    will.set_members({end.id: end.member() for end in ends})
    will.begin_session(SESSION)
    held = [AttemptKey(EXECUTION_ID, "task", number) for number in range(count)]

    await post_all(warden.letters[1:], held)

    assert other.deaths == [(A, SESSION)]
    assert other.left == (frozenset(held) if is_told else None)


async def test_a_will_follows_the_session_and_the_members() -> None:
    warden = Warden()
    will = DeathNotice(
        warden,
        lambda session: PreparedRequest((session,), b"", {}),
        cluster="c",
        node_id=A,
        secret="a",
    )

    will.begin_session(Session("first"))
    alone = warden.letters
    will.set_members({A: End(A).member(1), B: End(B).member(2)})
    will.begin_session(Session("second"))

    assert [each.urls for each in alone] == [("first",)]
    assert [each.urls for each in warden.letters] == [
        ("second",),
        (f"http://127.0.0.1:2{PATH}",),
    ]


async def test_it_is_believed_of_a_process_whose_link_is_gone(ends: tuple[End, End]) -> None:
    one, other = ends
    other.links.set_members({})
    one.links.set_members({})
    await until(lambda: other.links.peers == ())

    status = await told(other, encode(news_of(one)))

    assert (status, other.deaths) == (204, [(A, SESSION)])


async def test_news_that_come_twice_are_told_twice(ends: tuple[End, End]) -> None:
    one, other = ends

    statuses = [await told(other, encode(news_of(one))) for _ in range(2)]

    assert statuses == [204, 204]
    assert set(other.deaths) == {(A, SESSION)}


@pytest.mark.parametrize(
    "wrong",
    [{"secret": "of another"}, {"cluster": "another"}, {"node_id": B}, {"node_id": "c"}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_it_is_not_believed_of_a_process_that_nobody_spoke_with(
    ends: tuple[End, End], wrong: dict[str, str]
) -> None:
    one, other = ends

    status = await told(other, encode(news_of(one, **wrong)))

    assert (status, other.deaths) == (403, [])


async def test_the_life_after_it_is_not_taken_for_dead(ends: tuple[End, End]) -> None:
    one, other = ends
    news = encode(news_of(one))
    later = End(A)
    later.credentials = msgspec.structs.replace(later.credentials, life=life_of("another"))
    async with later.living():
        introduce(later, other)
        await until(lambda: bool(later.links.peers))

        status = await told(other, news)

    # It names its session, and that of the later life is another.
    assert (status, other.deaths) == (204, [(NodeId("a"), SESSION)])


@pytest.mark.parametrize("links_of_the_last", [1, LIVES_MAX + 1])
async def test_it_is_believed_of_the_last_lives_of_a_node_however_often_each_linked(
    links_of_the_last: int,
) -> None:
    secrets = [f"secret {number}" for number in range(LIVES_MAX + 1)]
    async with End(B).living() as other:
        introduce(other, End(A))
        for secret in [*secrets, *([secrets[-1]] * (links_of_the_last - 1))]:
            await link(other, secret)

        statuses = [await told(other, encode(news_of(End(A), secret=each))) for each in secrets]

    assert statuses == [403, *([204] * LIVES_MAX)]


async def link(other: End, secret: str) -> None:
    """Link with *other* for a moment, as the process of node a that has *secret*."""
    one = End(A)
    one.credentials = msgspec.structs.replace(one.credentials, life=life_of(secret))
    async with dialled(other.port) as socket:
        await greet(socket, one, other)
        await until(lambda: other.links.peers == (A,))
    await until(lambda: other.links.peers == ())


async def test_what_is_no_such_news_is_refused(ends: tuple[End, End]) -> None:
    _, other = ends

    assert await told(other, b"what") == 400
    assert await told(other, encode(news_of(other)), left="what") == 400
    assert other.deaths == []
