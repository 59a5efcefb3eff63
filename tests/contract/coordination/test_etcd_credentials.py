"""Passwords, tokens and certificates for etcd."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from contract.coordination.etcd_clients import PATIENCE_S, Connect, LossyLink, life, steps, swap_one
from rota.executor.warden.on_death_requests import post_all
from rota.node.cluster.death_notice import as_on_death_request
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable
from rota.node.coordination.credentials import AccessDenied, Credentials
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import Gateway, GatewayOptions
from support.certificates import Authority, needs_openssl
from support.etcd import Etcd, EtcdCluster, free_ports, needs_etcd

pytestmark = needs_etcd


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("secret\n")
    return file


def as_user(name: str, password_file: Path) -> Credentials:
    return Credentials(user=name, password_file=password_file)


SIMPLE = "simple"
JWT = "jwt,pub-key={0}/ca.pub,priv-key={0}/ca.key,sign-method=RS256,ttl=10m"


@needs_openssl
@pytest.mark.parametrize("tokens", [SIMPLE, JWT], ids=["simple", "jwt"])
async def test_a_token_that_etcd_no_longer_takes_is_replaced(
    authority: Authority, tmp_path: Path, connect: Connect, tokens: str, password_file: Path
) -> None:
    authority.public_key()
    with EtcdCluster(tmp_path, 1, "--auth-token", tokens.format(authority.folder)) as cluster:
        await asyncio.to_thread(demand_passwords, cluster.members[0])
        coordinator = connect(*cluster.urls, credentials=as_user("root", password_file))
        session = await life(coordinator)
        revision = (await coordinator.view()).revision
        await asyncio.to_thread(set_password, cluster, "secret", "secret")

        swapped = await swap_one(coordinator, None, session)
        async with aclosing(coordinator.watch(revision)) as watch:
            [step] = await steps(watch, 1)

    assert swapped.is_done
    assert step.configurations == {1: swapped.current}


async def test_a_new_password_is_read_from_its_file(
    own_etcd: EtcdCluster, connect: Connect, password_file: Path
) -> None:
    await asyncio.to_thread(demand_passwords, own_etcd.members[0])
    coordinator = connect(*own_etcd.urls, credentials=as_user("root", password_file))
    session = await life(coordinator)

    await asyncio.to_thread(set_password, own_etcd, "secret", "fresh")
    with pytest.raises(AccessDenied, match="invalid user ID or password"):
        await swap_one(coordinator, None, session)
    await asyncio.to_thread(password_file.write_text, "fresh\n")

    assert (await swap_one(coordinator, None, session)).is_done


def set_password(cluster: EtcdCluster, old: str, new: str) -> None:
    """Set root's password, after which etcd refuses all earlier tokens."""
    ask = cluster.members[0].ask
    token = ask("/v3/auth/authenticate", {"name": "root", "password": old})["token"]
    ask("/v3/auth/user/changepw", {"name": "root", "password": new}, token=token)


async def test_the_error_for_refused_credentials_names_a_remedy(
    own_etcd: EtcdCluster, connect: Connect, tmp_path: Path, password_file: Path
) -> None:
    with pytest.raises(AccessDenied, match="not enabled; etcd does not authenticate: enable"):
        await connect(*own_etcd.urls, credentials=as_user("root", password_file)).view()

    await asyncio.to_thread(demand_passwords, own_etcd.members[0])
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    with pytest.raises(AccessDenied, match=r"invalid user ID or password; set etcd_user \('root'"):
        await connect(*own_etcd.urls, credentials=as_user("root", wrong)).view()
    with pytest.raises(AccessDenied, match="user name is empty; etcd requires authentication"):
        await connect(*own_etcd.urls).view()
    with pytest.raises(AccessDenied, match=r"missing cannot be read .No such file"):
        await connect(*own_etcd.urls, credentials=as_user("root", tmp_path / "missing")).view()


async def test_calls_that_need_a_token_at_once_get_one_for_all(
    own_etcd: EtcdCluster, connect: Connect, password_file: Path
) -> None:
    await asyncio.to_thread(demand_passwords, own_etcd.members[0])
    async with LossyLink(own_etcd.members[0].client_port).listening() as link:
        coordinator = connect(link.url, credentials=as_user("root", password_file))

        await asyncio.gather(*(coordinator.view() for _ in range(5)))

    assert link.sent.count(b"/v3/auth/authenticate") == 1


def demand_passwords(etcd: Etcd) -> None:
    ask = etcd.ask
    ask("/v3/auth/user/add", {"name": "root", "password": "secret"})
    ask("/v3/auth/role/add", {"name": "root"})
    ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
    ask("/v3/auth/enable", {})


@pytest.fixture
def etcd_with_tls(authority: Authority, tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that requires client certificates."""
    certificate, key = authority.issue("etcd")
    flags = (
        *("--client-cert-auth", "--trusted-ca-file", str(authority.certificate)),
        *("--cert-file", str(certificate), "--key-file", str(key)),
    )
    cluster = EtcdCluster(tmp_path, 1, *flags)
    [etcd] = cluster.members
    etcd.scheme = "https"
    try:
        etcd.start()
        yield etcd
    finally:
        etcd.kill()


@needs_openssl
async def test_etcd_is_reached_with_certificates_of_both_sides(
    authority: Authority, etcd_with_tls: Etcd, connect: Connect
) -> None:
    certificate, key = authority.issue("rota")
    trusting = Credentials(ca_file=authority.certificate)
    both = replace(trusting, certificate_file=certificate, key_file=key)
    coordinator = connect(etcd_with_tls.url, credentials=both)
    await answering(coordinator)

    session = await life(coordinator)

    assert (await swap_one(coordinator, None, session)).is_done
    with pytest.raises(AccessDenied, match="set etcd_cert and etcd_key to a pair"):
        await connect(etcd_with_tls.url, credentials=trusting).view()
    with pytest.raises(AccessDenied, match="set etcd_cert and etcd_key"):
        await swap_one(connect(etcd_with_tls.url, credentials=trusting), None, session)
    with pytest.raises(AccessDenied, match=r"certificate verify failed .*; set etcd_ca"):
        await connect(etcd_with_tls.url, credentials=replace(both, ca_file=None)).view()


@needs_openssl
async def test_a_user_needs_a_certificate_without_a_common_name(
    authority: Authority, etcd_with_tls: Etcd, connect: Connect, tmp_path: Path
) -> None:
    named, nameless = authority.issue("rota"), authority.issue("nameless", subject="/O=rota")
    etcd_with_tls.tls = ssl.create_default_context(cafile=authority.certificate)
    etcd_with_tls.tls.load_cert_chain(*nameless)
    password_file = tmp_path / "password"
    password_file.write_text("secret\n")
    certificates = {
        pair: replace(
            as_user("root", password_file),
            ca_file=authority.certificate,
            certificate_file=pair[0],
            key_file=pair[1],
        )
        for pair in (named, nameless)
    }
    await answering(
        connect(etcd_with_tls.url, credentials=replace(certificates[nameless], user=""))
    )
    await asyncio.to_thread(demand_passwords, etcd_with_tls)

    await connect(etcd_with_tls.url, credentials=certificates[nameless]).view()
    with pytest.raises(AccessDenied, match="without a common name"):
        await connect(etcd_with_tls.url, credentials=certificates[named]).view()


@needs_openssl
async def test_the_error_for_a_certificate_of_another_authority_names_a_remedy(
    authority: Authority, etcd_with_tls: Etcd, connect: Connect, tmp_path: Path
) -> None:
    certificate, key = Authority(tmp_path / "other").issue("stranger")
    stranger = Credentials(
        ca_file=authority.certificate, certificate_file=certificate, key_file=key
    )
    own = authority.issue("rota")
    await answering(
        connect(
            etcd_with_tls.url,
            credentials=replace(stranger, certificate_file=own[0], key_file=own[1]),
        )
    )

    with pytest.raises(AccessDenied, match="set etcd_cert and etcd_key to a pair that"):
        await connect(etcd_with_tls.url, credentials=stranger).view()


@needs_openssl
async def test_an_unreachable_endpoint_might_accept_refused_credentials(
    authority: Authority, etcd_with_tls: Etcd, connect: Connect
) -> None:
    [unused] = free_ports(1)
    certificate, key = authority.issue("rota")
    ours = Credentials(ca_file=authority.certificate, certificate_file=certificate, key_file=key)
    await answering(connect(etcd_with_tls.url, credentials=ours))
    coordinator = connect(
        etcd_with_tls.url,
        f"http://127.0.0.1:{unused}",
        credentials=replace(ours, certificate_file=None, key_file=None),
    )

    with pytest.raises(CoordinatorUnavailable) as raised:
        await coordinator.view()

    assert not isinstance(raised.value, AccessDenied)


@needs_openssl
async def test_a_death_notice_over_tls_ends_a_session(
    authority: Authority, etcd_with_tls: Etcd, connect: Connect
) -> None:
    certificate, key = authority.issue("rota")
    ours = Credentials(ca_file=authority.certificate, certificate_file=certificate, key_file=key)
    coordinator = connect(etcd_with_tls.url, credentials=ours)
    await answering(coordinator)
    session = await life(coordinator)

    await post_all([as_on_death_request(coordinator.end_of(session))])

    assert (await coordinator.view()).lives == {}


@needs_openssl
def test_the_error_for_an_unusable_certificate_file_names_it(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, _ = authority.issue("rota")
    empty = tmp_path / "empty.pem"
    empty.touch()
    ours = Credentials(certificate_file=certificate, key_file=authority.folder / "ca.key")

    with pytest.raises(AccessDenied, match=r"etcd_ca .*empty\.pem cannot be used"):
        Gateway(GatewayOptions(endpoints=("https://x",), credentials=Credentials(ca_file=empty)))
    with pytest.raises(AccessDenied, match=r"etcd_cert .*rota\.crt with etcd_key .*ca\.key"):
        Gateway(GatewayOptions(endpoints=("https://x",), credentials=ours))


async def answering(coordinator: EtcdCoordinator) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(CoordinatorUnavailable):
                await coordinator.view()
                return
            await asyncio.sleep(0.05)
