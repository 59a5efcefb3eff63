"""Authentication of tasks: which tokens of attempts are accepted, and what they may do."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rota.core.model.ids import ExecutionId, NodeId
from rota.core.model.shared_document import BINDINGS
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.node.access.access_table import AccessTable
from rota.node.access.attempt_identity import AttemptIdentity, issue
from rota.node.access.authenticator import Authenticator, LoginFailed, NotReadYet, TooManyLogins
from rota.node.access.failed_logins import LOGINS_MAX
from rota.node.access.principal import Principal
from rota.node.access.task_tokens import AttemptFacts, TaskTokens
from rota.node.access.verbs import Verb
from support.access_tables import bind, put, put_key, stored, token

NOW = Instant(1_800_000_000 * SECOND)
CLUSTER = "c1"
KEYS = {NodeId("n1"): b"1" * 32, NodeId("n2"): b"2" * 32, NodeId("old"): b""}
IDENTITY = AttemptIdentity(
    node_id=NodeId("n1"),
    job="team-a/nightly",
    execution_id=ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0000"),
    task="main",
    attempt=1,
    fence="0" * 32,
    expires_at=later(NOW, Duration(60 * SECOND)),
)


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.at

    def elapsed(self) -> Instant:
        """Return the time that was set."""
        return self.at


class World:
    """A node's authentication, with attempts that a test ends."""

    def __init__(self) -> None:
        self.table = AccessTable()
        put_key(self.table, "admin", stored(token(1)))
        self.clock = SetClock()
        self.keys: dict[NodeId, bytes] | None = dict(KEYS)
        self.running: dict[AttemptIdentity, bool | None] = {IDENTITY: True}
        facts = AttemptFacts(
            cluster=CLUSTER,
            key_of=lambda node: None if self.keys is None else self.keys.get(node, b""),
            is_running=lambda identity: self.running.get(identity),
        )
        tokens = TaskTokens(self.table, self.clock, facts)
        self.authenticator = Authenticator(self.table, self.clock, task_tokens=tokens)

    def login(self, text: str) -> Principal:
        """Authenticate a request."""
        return self.authenticator.authenticate(f"Bearer {text}", "10.1.2.3")


@pytest.fixture
def world() -> World:
    return World()


def issued(identity: AttemptIdentity = IDENTITY, node: str = "n1") -> str:
    return issue(identity, KEYS[NodeId(node)], CLUSTER)


def test_a_token_proves_the_job_and_has_the_roles_of_its_bindings(world: World) -> None:
    bind(world.table, "job:team-a/nightly", "operator", "team-b")

    caller = world.login(issued())

    assert caller.name == "job:team-a/nightly"
    assert caller.may(Verb.RUN, "team-b")
    assert not caller.may(Verb.READ, "team-a")
    assert not caller.may(Verb.WRITE, "team-b")


def test_a_task_is_part_of_its_own_execution_alone(world: World) -> None:
    caller = world.login(issued())

    assert caller.is_part_of(IDENTITY.execution_id)
    assert not caller.is_part_of(ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0001"))


def test_a_binding_of_another_job_or_principal_counts_for_no_task(world: World) -> None:
    others = ("job:team-b/nightly", "job:team-a/nightly2", "principal:nightly", "cert:nightly")
    for number, subject in enumerate(others):
        bind(world.table, subject, "cluster-admin", "*", name=f"b{number}")

    assert world.login(issued()).grants.granted == ()


def test_a_withdrawn_binding_counts_no_more(world: World) -> None:
    bind(world.table, "job:team-a/nightly", "operator", "team-a")
    caller = world.login(issued())
    assert caller.may(Verb.RUN, "team-a")

    put(world.table, BINDINGS, "binding", None, version=2)

    assert not world.login(issued()).may(Verb.RUN, "team-a")
    assert not world.authenticator.is_alive(caller)


@pytest.mark.parametrize(
    "forge",
    [
        lambda: issue(IDENTITY, b"3" * 32, CLUSTER),
        lambda: issue(IDENTITY, KEYS[NodeId("n2")], CLUSTER),
        lambda: issue(IDENTITY, KEYS[NodeId("n1")], "c2"),
        lambda: issue(replace(IDENTITY, node_id=NodeId("n9")), b"3" * 32, CLUSTER),
        lambda: issue(replace(IDENTITY, node_id=NodeId("old")), b"\0", CLUSTER),
        lambda: issued()[:-1],
        lambda: "rota_t_",
    ],
)
def test_a_forged_token_is_refused(world: World, forge: Callable[[], str]) -> None:
    with pytest.raises(LoginFailed):
        world.login(forge())


def test_a_token_ends_with_its_time_whatever_is_known_of_the_attempt(world: World) -> None:
    caller = world.login(issued())
    world.clock.at = Instant(IDENTITY.expires_at - 1)
    assert world.login(issued()).name == caller.name

    world.clock.at = IDENTITY.expires_at

    with pytest.raises(LoginFailed):
        world.login(issued())
    assert not world.authenticator.is_alive(caller)


def test_a_token_ends_with_its_attempt(world: World) -> None:
    caller = world.login(issued())
    assert world.authenticator.is_alive(caller)

    world.running[IDENTITY] = False

    with pytest.raises(LoginFailed):
        world.login(issued())
    assert not world.authenticator.is_alive(caller)


def test_a_node_that_cannot_know_the_attempt_accepts_its_token(world: World) -> None:
    of_other = replace(IDENTITY, node_id=NodeId("n2"))
    world.running = {of_other: None}

    assert world.login(issued(of_other, "n2")).name == "job:team-a/nightly"


def test_a_node_that_knows_no_members_yet_asks_for_patience(world: World) -> None:
    world.keys = None

    with pytest.raises(NotReadYet):
        world.login(issued())


def test_forged_tokens_count_as_failed_logins(world: World) -> None:
    for _ in range(LOGINS_MAX):
        with pytest.raises(LoginFailed):
            world.login(issue(IDENTITY, b"3" * 32, CLUSTER))

    with pytest.raises(TooManyLogins):
        world.login(issue(IDENTITY, b"3" * 32, CLUSTER))
    assert world.login(issued()).name == "job:team-a/nightly"
