"""Tokens, keys and roles of a real node, as a user has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client import Client, NotAllowed, NotAuthenticated
from rota.client.dev.local_node import LocalNode
from support.rota_program import Rota
from support.rotad import Rotad


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """A node with keys, whose token this user has."""
    data_dir = tmp_path_factory.mktemp("keys") / "data"
    with LocalNode(data_dir, flags=("--drain", "0s")) as local_node:
        yield local_node


@pytest.fixture
def admin(rota_alone: Rota, node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> Rota:
    """The command ``rota`` of the administrator."""
    monkeypatch.setenv("ROTA_URL", node.url)
    return rota_alone


@pytest.fixture
def token_file(admin: Rota, tmp_path: Path) -> Iterator[Path]:
    """The file with the token of a viewer in team-a."""
    file = tmp_path / "viewer.token"
    made = admin("key", "create", "viewer", "--role", "viewer", "--namespace", "team-a")
    assert made.status == 0, made.err
    file.write_text(made.out)
    yield file
    admin("key", "revoke", "viewer")
    admin("ungrant", "viewer", "viewer")


def test_the_token_of_a_temporary_node_has_all_verbs(admin: Rota) -> None:
    shown = admin("auth", "whoami", "-o", "json").json

    assert {"role": "cluster-admin", "namespaces": ["*"]} in shown["bindings"]
    assert admin("auth", "can", "admin").out == "yes\n"


def test_a_viewer_can_read_and_not_write(admin: Rota, token_file: Path) -> None:
    flags = ("--token-file", str(token_file))
    create = ("jobs", "create", "-n", "team-a", "hello")

    assert admin(*create, "--", "true").status == 0
    assert admin("jobs", "-n", "team-a", "-o", "name", *flags).out == "team-a/hello\n"
    assert admin(*create, *flags, "--", "false").status == 4
    assert admin("auth", "can", "read", "team-a", *flags).status == 0
    assert admin("auth", "can", "write", "team-a", *flags).status == 1
    assert admin("auth", "can", "read", "team-b", *flags).status == 1
    assert admin("key", "list", *flags).status == 4


def test_a_grant_applies_until_it_is_taken(admin: Rota, token_file: Path) -> None:
    can = ("auth", "can", "write", "team-b", "--token-file", str(token_file))

    admin("grant", "viewer", "editor", "team-b")
    granted = admin(*can)
    admin("ungrant", "viewer", "editor")
    taken = admin(*can)

    assert (granted.status, taken.status) == (0, 1)


def test_a_rotated_token_is_used_without_a_restart(
    admin: Rota, node: LocalNode, token_file: Path
) -> None:
    with Client(node.url, token_file=token_file) as client:
        first = client.whoami().token_id

        token_file.write_text(admin("key", "rotate", "viewer", "--grace", "0s").out)
        second = client.whoami().token_id

    assert first != second


def test_a_revoked_key_is_not_accepted(admin: Rota, node: LocalNode, token_file: Path) -> None:
    with Client(node.url, token_file=token_file) as client:
        client.whoami()

        admin("key", "revoke", "viewer")

        with pytest.raises(NotAuthenticated):
            client.whoami()
    assert admin("jobs", "--token-file", str(token_file)).status == 10


def test_a_caller_cannot_give_more_than_it_has(node: LocalNode, token_file: Path) -> None:
    with Client(node.url, token_file=token_file) as client, pytest.raises(NotAllowed):
        client.create_key("more", role="cluster-admin", namespaces=["*"])


def test_the_first_key_is_created_once_at_the_socket(
    rota_alone: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Rotad(tmp_path / "data", "--auth", "keys", "--drain", "0s") as rotad:
        rotad.start()
        monkeypatch.setenv("ROTA_URL", rotad.url)
        before = rota_alone("jobs")
        init = ("auth", "init", "--data-dir", str(tmp_path / "data"), "--save")
        first = rota_alone(*init)
        second = rota_alone(*init)
        after = rota_alone("jobs")

    assert before.status == 10
    assert (first.status, first.out) == (0, "")
    assert second.status == 5
    assert after.status == 0
