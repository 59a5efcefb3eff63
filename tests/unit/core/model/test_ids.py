"""Names and ids. Their forms are stored for ever, so some values are written down here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.ids import (
    ExecutionId,
    JobId,
    Slot,
    fire_execution_id,
    instant_of,
    is_execution_id,
    is_job_id,
    is_name,
    job_of,
    mint_job_id,
    slot_of,
    slot_of_id,
    trigger_execution_id,
)
from rota.core.timing.instants import Instant
from unit.core.shard import at

JOB = JobId("3f2a9c0011223344")
instants = st.integers(0, 2**56 - 1).map(Instant)


@pytest.mark.parametrize(
    ("namespace", "name", "slot"),
    [
        ("default", "daily-report", 0xDE10),
        ("default", "job", 0x740E),
        ("team-a", "daily-report", 0x1C4A),
        ("default", "a.b_c-d", 0xBCC9),
    ],
)
def test_slots_are_those_of_every_rota_before(namespace: str, name: str, slot: int) -> None:
    """What ``printf namespace/name | b2sum -l 16`` prints, too."""
    assert slot_of(namespace, name) == slot


def test_ids_have_the_forms_of_every_rota_before() -> None:
    noon = at("2027-01-04T12:00:00Z")

    assert mint_job_id(Slot(0x3F2A), 0xABC_9C00_1122_3344) == JOB
    assert fire_execution_id(JOB, noon, 1) == "3f2a9c0011223344-06643d3aa5f000-0001"
    assert trigger_execution_id(JOB, noon, 0x7_0005) == "3f2a9c0011223344-06643d3aa5f000-8005"


@given(instant=instants, schedule=st.integers(0, 63))
@settings(max_examples=100, deadline=None)
def test_an_execution_id_contains_its_job_its_instant_and_its_slot(
    instant: Instant, schedule: int
) -> None:
    execution_id = fire_execution_id(JOB, instant, schedule)

    assert is_execution_id(execution_id)
    assert job_of(execution_id) == JOB
    assert instant_of(execution_id) == instant
    assert slot_of_id(execution_id) == slot_of_id(JOB) == 0x3F2A


@given(earlier=instants, later=instants, schedule=st.integers(0, 63), entropy=st.integers(0))
@settings(max_examples=100, deadline=None)
def test_execution_ids_of_a_job_sort_by_time(
    *, earlier: Instant, later: Instant, schedule: int, entropy: int
) -> None:
    fire = fire_execution_id(JOB, earlier, schedule)
    asked = trigger_execution_id(JOB, later, entropy)

    assert (fire < asked) is (earlier <= later)


def test_a_trigger_never_gets_the_id_of_a_fire() -> None:
    fires = {fire_execution_id(JOB, Instant(0), schedule) for schedule in range(64)}

    assert not any(trigger_execution_id(JOB, Instant(0), n) in fires for n in range(1 << 16))


@pytest.mark.parametrize("name", ["a", "A1", "a-b", "a.b_c", "x" * 128, "0"])
def test_these_are_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", ".a", "a.", "a b", "a/b", "ä", "a\n", "x" * 129, "٣", "a\0"]
)
def test_these_are_not_names(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    "text", ["", JOB + "0", JOB[:-1], JOB.upper(), JOB + "\n", "../../etc/pass"]
)
def test_these_are_not_job_ids(text: str) -> None:
    assert not is_job_id(text)


def test_an_id_of_another_length_is_not_an_execution_id() -> None:
    execution_id = ExecutionId("3f2a9c0011223344-0647b1c2d3e4f5-0000")

    assert is_execution_id(execution_id)
    assert not is_execution_id(execution_id + "0")
    assert not is_execution_id(execution_id.replace("-", "_"))
