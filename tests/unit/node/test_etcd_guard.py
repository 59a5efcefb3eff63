"""The quota of etcd's database, and the reports about it."""

import asyncio
import logging

import pytest

from rota.node.cluster.etcd_guard import EtcdGuard
from rota.node.coordination.etcd_messages import StatusResponse
from rota.node.coordination.etcd_space import EtcdSpace, space_of
from rota.node.system.background import beside

GIB = 1 << 30


async def nothing() -> EtcdSpace | None:
    return None


@pytest.fixture
def guard() -> EtcdGuard:
    return EtcdGuard(nothing)


def space(used_bytes: int, *, is_refusing: bool = False) -> EtcdSpace:
    return EtcdSpace(used_bytes, 1_000, is_refusing)


def test_the_member_that_is_nearest_to_its_quota_counts() -> None:
    small = StatusResponse(size_bytes=9, quota_bytes=10)
    large = StatusResponse(size_bytes=100, quota_bytes=1_000)

    assert space_of([large, small]) == EtcdSpace(9, 10, is_refusing=False)
    assert space_of([]) is None


def test_a_member_that_does_not_report_its_quota_has_the_default_of_etcd() -> None:
    assert space_of([StatusResponse(size_bytes=7)]) == EtcdSpace(7, 2 * GIB, is_refusing=False)


def test_the_alarm_of_any_member_makes_etcd_refuse_writes() -> None:
    alarmed = StatusResponse(size_bytes=1, errors=("memberID:1 alarm:NOSPACE",))

    found = space_of([StatusResponse(size_bytes=2), alarmed])

    assert found == EtcdSpace(2, 2 * GIB, is_refusing=True)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, None),
        (space(799), None),
        (space(800), "etcd's database takes 80% of its quota"),
        (space(1, is_refusing=True), "etcd refuses writes"),
    ],
)
def test_etcd_that_is_nearly_full_is_a_trouble_with_its_remedy(
    guard: EtcdGuard, found: EtcdSpace | None, reason: str | None
) -> None:
    guard.see(found)

    why = guard.why_short
    assert (why is None) == (reason is None)
    assert why is None or (why.startswith(reason or "") and "`etcdctl compact`" in why)


def test_the_last_state_stays_while_etcd_does_not_answer(guard: EtcdGuard) -> None:
    guard.see(space(900))
    guard.see(None)

    assert (guard.used_bytes, guard.quota_bytes) == (900, 1_000)
    assert guard.why_short


def test_the_log_reports_once_that_etcd_is_nearly_full_and_once_that_it_is_not(
    guard: EtcdGuard, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for used_bytes in (700, 800, 850, 100, 50):
            guard.see(space(used_bytes))

    assert [each.getMessage() for each in caplog.records] == [
        "etcd nearly full",
        "etcd has space again",
    ]


async def test_etcd_is_looked_at_when_the_node_starts() -> None:
    looked = asyncio.Event()

    async def look() -> EtcdSpace:
        looked.set()
        return space(900)

    guard = EtcdGuard(look)
    async with asyncio.timeout(10), beside(guard.run()):
        await looked.wait()

    assert guard.why_short
