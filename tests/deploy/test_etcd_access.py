"""An etcd with access control, set up by the program in deploy/ and used by real nodes."""

import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.programs import DEPLOY, run
from support.certificates import Authority, needs_openssl
from support.cluster import Cluster
from support.etcd import Etcd, EtcdCluster, free_ports, needs_etcd
from support.rotad import Rotad

pytestmark = [needs_etcd, needs_openssl]

PROGRAM = DEPLOY / "etcd" / "rota-etcd-access"


@dataclass(frozen=True)
class Closed:
    """An etcd with TLS and authentication, and its passwords.

    Attributes:
        folder: ``root.password``, ``rota.password``, and further files of tests.
    """

    etcd: EtcdCluster
    authority: Authority
    folder: Path

    @property
    def member(self) -> Etcd:
        """Its one member."""
        return self.etcd.members[0]

    def file(self, name: str, text: str) -> Path:
        """Return a new file."""
        file = self.folder / name
        file.write_text(f"{text}\n")
        return file

    def set_up(self, cluster: str, password: Path, user: str = "rota") -> str:
        """Run the program for a cluster; return what it prints."""
        return run(
            sys.executable, "-I", PROGRAM, "--etcd", self.member.url,
            "--ca", self.authority.certificate, "--cluster", cluster, "--user", user,
            "--root-password-file", self.folder / "root.password", "--password-file", password,
        )  # fmt: skip

    def log_in(self, user: str, password: str) -> str:
        """Return a token."""
        who = {"name": user, "password": password}
        return str(self.member.ask("/v3/auth/authenticate", who)["token"])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """An etcd with TLS, set up for the clusters ``trio`` and ``other``."""
    folder = tmp_path_factory.mktemp("closed")
    authority = Authority(folder / "ca")
    certificate, key = authority.issue("etcd")
    etcd = EtcdCluster(folder, 1, "--cert-file", str(certificate), "--key-file", str(key))
    [member] = etcd.members
    member.scheme = "https"
    member.tls = ssl.create_default_context(cafile=authority.certificate)
    with etcd:
        closed = Closed(etcd, authority, folder)
        closed.file("root.password", "the root")
        closed.set_up("trio", closed.file("rota.password", "wheel"))
        member.token = closed.log_in("root", "the root")
        yield closed


def flags(closed: Closed, **others: Path | str) -> tuple[str, ...]:
    """Return the flags of a node, *others* in the place of the right ones."""
    listen, peer_listen = free_ports(2)
    return (
        *("--listen", f"127.0.0.1:{listen}", "--peer-listen", f"127.0.0.1:{peer_listen}"),
        *credentials(closed, **others),
    )


def credentials(closed: Closed, **others: Path | str) -> tuple[str, ...]:
    """Return the flags by which a node gets into etcd, *others* in the place of the right ones."""
    given: dict[str, Path | str] = {
        "etcd_user": "rota",
        "etcd_password_file": closed.folder / "rota.password",
        "etcd_ca": closed.authority.certificate,
        **others,
    }
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in given.items() if value]
    return tuple(word for pair in pairs for word in pair)


def test_nodes_join_and_take_over_and_get_new_tokens(closed: Closed, tmp_path: Path) -> None:
    folder = tmp_path / "trio"
    folder.mkdir()
    with Cluster(folder, closed.etcd, 3, *credentials(closed)) as cluster:
        cluster.start()
        cluster.nodes[0].create(name="kept", command="true")
        # All tokens of the user end with a new password; the file has it before etcd does.
        closed.file("rota.password", "another wheel")
        closed.set_up("trio", closed.folder / "rota.password")

        cluster.nodes[2].kill_all()
        cluster.wait_until(
            lambda: all(each["primary"] != "n3" for each in cluster.configurations().values()),
            "nothing is taken over",
        )
        execution = cluster.nodes[0].run(name="after", command="true")

    assert execution["status"] == "success"


def test_a_death_notice_ends_the_session_of_a_killed_node(closed: Closed, tmp_path: Path) -> None:
    folder = tmp_path / "notices"
    folder.mkdir()
    closed.set_up("notices", closed.file("notices.password", "post"), user="notices")
    as_notices = credentials(
        closed, etcd_user="notices", etcd_password_file=closed.folder / "notices.password"
    )
    with Cluster(folder, closed.etcd, 2, *as_notices) as cluster:
        for node in cluster:
            node.spawn()
        cluster.wait_until(lambda: set(cluster.sessions()) == {"n1", "n2"}, "no sessions")
        cluster.nodes[1].wait_ready(60)

        cluster.nodes[1].kill()

        posted = cluster.nodes[1].data_dir / "warden.log"
        cluster.wait_until(lambda: "death notice posted" in posted.read_text(), "no death notice")
        cluster.wait_until(lambda: set(cluster.sessions()) == {"n1"}, "the session lives on")


def test_a_user_has_access_to_the_keys_of_its_cluster_alone(closed: Closed) -> None:
    closed.set_up("other", closed.file("other.password", "secret"), user="other")
    token = closed.log_in("other", "secret")
    ask = closed.member.ask

    ask("/v3/kv/put", {"key": b"/rota/other/x", "value": b"1"}, token=token)
    for key in (b"/rota/trio/meta", b"/rota/other", b"/rota/other0", b"/rota/"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask("/v3/kv/put", {"key": key, "value": b"1"}, token=token)
        assert b"permission denied" in refused.value.read()


def test_setting_up_again_changes_nothing_but_a_new_password(closed: Closed) -> None:
    file = closed.file("again.password", "first")
    closed.set_up("again", file, user="again")
    token = closed.log_in("again", "first")

    closed.set_up("again", file, user="again")
    closed.member.ask("/v3/kv/range", {"key": b"/rota/again/x"}, token=token)
    closed.set_up("again", closed.file("again.password", "second"), user="again")

    assert closed.log_in("again", "second")
    with pytest.raises(urllib.error.HTTPError):
        closed.member.ask("/v3/kv/range", {"key": b"/rota/again/x"}, token=token)


def test_a_warning_names_an_etcd_that_lets_anyone_raise_alarms(closed: Closed) -> None:
    member = closed.member
    stranger = urllib.request.Request(f"{member.url}/v3/maintenance/alarm", b"{}")
    try:
        urllib.request.urlopen(stranger, timeout=5, context=member.tls).close()
        is_open = True
    except urllib.error.HTTPError:
        is_open = False

    printed = closed.set_up("open", closed.file("open.password", "secret"), user="open")

    assert ("warning: this etcd lets every client raise alarms" in printed) is is_open


def test_without_root_nothing_is_set_up(closed: Closed) -> None:
    ran = subprocess.run(
        [
            sys.executable, PROGRAM, "--etcd", closed.member.url,
            "--ca", closed.authority.certificate,
            "--root-password-file", closed.file("guess", "guess"),
            "--password-file", closed.folder / "rota.password",
        ],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip

    assert ran.returncode == 1
    assert "invalid user ID or password" in ran.stderr


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"--root-password-file": "guess"},
            "must contain the present password of etcd's user root",
        ),
        (
            {"--password-file": "nothing"},
            "--password-file {folder}/nothing does not exist; create it",
        ),
        ({"--ca": "nothing"}, "--ca {folder}/nothing does not exist"),
        ({"--ca": "rota.password"}, "--ca"),
        ({"--etcd": "http"}, "write https:// in --etcd"),
        ({"--etcd": "unused"}, "start etcd, or correct the address and port in --etcd"),
    ],
)
def test_an_error_names_what_to_type(closed: Closed, given: dict[str, str], error: str) -> None:
    closed.file("guess", "guess")
    words = {
        "--etcd": closed.member.url,
        "--ca": closed.authority.certificate,
        "--root-password-file": closed.folder / "root.password",
        "--password-file": closed.folder / "rota.password",
        **{option: closed.folder / name for option, name in given.items()},
    }
    [unused] = free_ports(1)
    urls = {
        "http": closed.member.url.replace("https", "http"),
        "unused": f"https://127.0.0.1:{unused}",
    }
    if "--etcd" in given:
        words["--etcd"] = urls[given["--etcd"]]

    ran = subprocess.run(
        [
            sys.executable, PROGRAM, "--wait", "0",
            *(str(word) for pair in words.items() for word in pair),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert ran.returncode == 1
    assert error.format(folder=closed.folder) in ran.stderr
    assert "Traceback" not in ran.stderr


REFUSED = {
    "wrong password": ("invalid user ID or password", "set etcd_user ('rota' now)"),
    "no password": ("cannot be read (No such file or directory)", "make it readable"),
    "no user": ("user name is empty", "set etcd_user and etcd_password_file"),
    "no permission": ("permission denied", "readwrite on the prefix /rota/"),
    "wrong authority": ("certificate verify failed", "set etcd_ca to"),
}
"""For each mistake, the cause and the remedy in the error message."""


@pytest.mark.parametrize("what", REFUSED)
def test_a_node_that_etcd_refuses_ends_and_names_cause_and_remedy(
    closed: Closed, tmp_path: Path, what: str
) -> None:
    given = {"cluster": "trio", "etcd": closed.member.url, **wrong(closed, what)}
    with Rotad(tmp_path / "data", *flags(closed, **given)) as node:
        node.spawn()

        assert node.exit_status(60) == 64
        [line] = [each for each in node.log().splitlines() if "node cannot run" in each]
        assert [part for part in REFUSED[what] if part not in line] == []


def wrong(closed: Closed, what: str) -> dict[str, Path | str]:
    """Return settings of a node that etcd refuses."""
    match what:
        case "wrong password":
            return {"etcd_password_file": closed.file("wrong", "guess")}
        case "no password":
            return {"etcd_password_file": closed.folder / "nothing"}
        case "no user":
            return {"etcd_user": "", "etcd_password_file": ""}
        case "no permission":
            return {"cluster": "foreign"}
        case _:
            return {"etcd_ca": Authority(closed.folder / "strangers").certificate}


def test_a_node_waits_for_an_unreachable_etcd(closed: Closed, tmp_path: Path) -> None:
    with EtcdCluster(tmp_path) as away:
        url = away.urls[0]
    given = {"etcd": url.replace("http", "https"), "cluster": "trio"}
    with Rotad(tmp_path / "data", *flags(closed, **given)) as node:
        node.spawn()

        node.wait_until(lambda: "etcd does not answer" in node.log(), 30)
        assert node.stop() == 0
