"""Settings of a node for TLS."""

from pathlib import Path

import pytest

from rota.core.errors import Refused
from rota.node.system.config import NodeConfig, load_config
from rota.node.system.tls_files import TlsFiles
from support.peer_certificates import PeerAuthority

CLUSTER = {"etcd": "http://127.0.0.1:2379", "node_id": "n1"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PeerAuthority:
    return PeerAuthority(tmp_path_factory.mktemp("tls") / "certs")


def settings_of(files: TlsFiles) -> dict[str, str]:
    names = ("peer_cert", "peer_key", "peer_ca")
    return {name: str(file) for name, file in zip(names, files, strict=True)}


def load(**settings: str) -> NodeConfig:
    return load_config(None, {}, {**CLUSTER, **settings})


def refusal_of(**settings: str) -> str:
    with pytest.raises(Refused) as refused:
        load(**settings)
    return refused.value.detail


def test_certificates_open_the_peer_port_to_other_machines(authority: PeerAuthority) -> None:
    files = authority.node("n1")
    beyond = {"peer_listen": "10.0.0.1:7401", "peer_advertise": "10.0.0.1:7401"}

    assert load(**beyond, **settings_of(files), advertise="10.0.0.1:1").peer_files == files
    refused = refusal_of(**beyond)
    assert "peer_listen: 10.0.0.1:7401 can be reached from other machines" in refused
    assert "set peer_cert, peer_key and peer_ca (`rota certs node n1` makes them)" in refused
    assert load(**beyond, insecure="true").peer_files is None


@pytest.mark.parametrize("missing", ["peer_cert", "peer_key", "peer_ca"])
def test_the_files_are_given_together(authority: PeerAuthority, missing: str) -> None:
    given = {
        name: file
        for name, file in settings_of(TlsFiles(*map(Path, ("/c", "/k", "/a")))).items()
        if name != missing
    }

    assert f"has no effect without {missing}: set all three or none" in refusal_of(**given)


def test_a_node_alone_has_no_use_for_them() -> None:
    files = settings_of(TlsFiles(Path("/c"), Path("/k"), Path("/a")))

    assert "peer_cert: has no effect without etcd" in refusal_of(etcd="", **files)


def test_connections_without_tls_beside_tls_need_certificates() -> None:
    refused = refusal_of(peer_tls="accept")

    assert "peer_tls: accept has no effect without peer_cert, peer_key and peer_ca" in refused


def test_the_certificate_is_that_of_this_node_and_this_cluster(authority: PeerAuthority) -> None:
    other, foreign = authority.node("n2"), authority.node_of_cluster("staging", "n1")

    for files, named in ((other, "default/node/n2"), (foreign, "staging/node/n1")):
        refused = refusal_of(**settings_of(files))
        assert f"names rota://{named}, but this node is rota://default/node/n1" in refused
    assert "names no node" in refusal_of(**settings_of(authority.client("alice")))


def test_files_that_cannot_be_used_are_reported(authority: PeerAuthority, tmp_path: Path) -> None:
    files = authority.node("n1", name="usable")
    (tmp_path / "empty").write_text("")

    for changed, message in (
        (files._replace(key=tmp_path / "none"), "none cannot be read: No such file"),
        (files._replace(certificate=tmp_path / "empty"), "no certificate in PEM"),
        (files._replace(key=authority.client("bob").key), "cannot be used together"),
        (files._replace(authority=tmp_path / "empty"), "empty"),
    ):
        assert message in refusal_of(**settings_of(changed))


# -- the API ---------------------------------------------------------------------------------------

BEYOND = {"etcd": "", "listen": "10.0.0.1:7400"}


def api_settings_of(files: TlsFiles) -> dict[str, str]:
    return {"tls_cert": str(files.certificate), "tls_key": str(files.key)}


def test_a_certificate_opens_the_api_to_other_machines(authority: PeerAuthority) -> None:
    files = authority.node("api")

    assert load(**BEYOND, **api_settings_of(files)).api_files == files._replace(authority=None)
    assert "Set tls_cert and tls_key, listen on 127.0.0.1" in refusal_of(**BEYOND)


@pytest.mark.parametrize("auth", ["open", "observe"])
def test_a_certificate_does_not_open_a_node_without_keys(
    authority: PeerAuthority, auth: str
) -> None:
    files = authority.node(f"api-{auth}")

    refused = refusal_of(**BEYOND, **api_settings_of(files), auth=auth)
    assert f"with auth = {auth!r}, any user of these machines can run commands here" in refused


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tls_cert": "/c"}, "tls_cert: has no effect without tls_key"),
        ({"tls_key": "/k"}, "tls_key: has no effect without tls_cert"),
        ({"tls_ca": "/a"}, "tls_ca: has no effect without tls_cert and tls_key"),
        ({"tls_client_ca": "/a"}, "tls_client_ca: has no effect without tls_cert and tls_key"),
        ({"tls_cert": "/c", "tls_key": "/k"}, "tls_cert: /c cannot be read: No such file"),
    ],
)
def test_the_files_of_the_api_are_complete_and_readable(
    given: dict[str, str], problem: str
) -> None:
    assert problem in refusal_of(**given)


def test_the_authority_for_tasks_is_one(authority: PeerAuthority, tmp_path: Path) -> None:
    settings = api_settings_of(authority.node("with-authority"))
    (tmp_path / "empty").write_text("")

    assert load(**settings, tls_ca=str(authority.certificate)).tls_ca == authority.certificate
    assert "tls_ca: /none cannot be read" in refusal_of(**settings, tls_ca="/none")
    assert "empty is no certificate in PEM" in refusal_of(
        **settings, tls_ca=str(tmp_path / "empty")
    )


def test_a_key_of_another_certificate_is_refused(authority: PeerAuthority) -> None:
    one, other = authority.node("one"), authority.node("other")

    refused = refusal_of(tls_cert=str(one.certificate), tls_key=str(other.key))
    assert "cannot be used together: KEY_VALUES_MISMATCH" in refused
