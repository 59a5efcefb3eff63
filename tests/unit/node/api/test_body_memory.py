"""Limits on the memory that the bodies of requests take."""

import pytest

from rota.core.errors import Refused
from rota.node.api.requests.body_memory import (
    BODIES_MAX,
    BODIES_PER_ADDRESS_MAX,
    BODIES_PER_CALLER_MAX,
    BodyMemory,
)

LARGEST = 4 << 20


def test_one_address_leaves_half_to_all_others() -> None:
    memory = BodyMemory(LARGEST)
    memory.reservation("a", None).grow(BODIES_PER_ADDRESS_MAX)

    with pytest.raises(Refused, match="from this address exceed the limit of 128 MiB"):
        memory.reservation("a", None).grow(1)
    memory.reservation("b", None).grow(BODIES_MAX - BODIES_PER_ADDRESS_MAX)


@pytest.mark.parametrize("caller", ["ann", ""])
def test_one_caller_leaves_half_of_its_address_to_all_others(caller: str) -> None:
    memory = BodyMemory(LARGEST)
    memory.reservation("a", caller).grow(BODIES_PER_CALLER_MAX)

    for address in "ab":
        with pytest.raises(Refused, match="of this caller exceed the limit of 64 MiB"):
            memory.reservation(address, caller).grow(1)
    memory.reservation("a", "bob").grow(BODIES_PER_CALLER_MAX)


def test_all_addresses_together_have_a_limit() -> None:
    memory = BodyMemory(LARGEST)
    for address in "ab":
        memory.reservation(address, None).grow(BODIES_PER_ADDRESS_MAX)

    with pytest.raises(Refused, match="in flight exceed the limit of 256 MiB"):
        memory.reservation("c", None).grow(1)


def test_a_refused_part_is_not_counted() -> None:
    memory = BodyMemory(LARGEST)
    reserved = memory.reservation("a", "ann")
    with pytest.raises(Refused):
        reserved.grow(BODIES_PER_CALLER_MAX + 1)

    reserved.grow(BODIES_PER_CALLER_MAX)


def test_what_is_freed_can_be_reserved_again() -> None:
    memory = BodyMemory(LARGEST)
    for _ in range(2 * BODIES_MAX // LARGEST):
        reserved = memory.reservation("a", None)
        reserved.grow(LARGEST)
        reserved.free()
        reserved.free()

    memory.reservation("a", None).grow(LARGEST)


def test_a_largest_body_beyond_the_limits_finds_room() -> None:
    memory = BodyMemory(2 * BODIES_MAX)

    memory.reservation("a", "ann").grow(2 * BODIES_MAX)

    with pytest.raises(Refused):
        memory.reservation("b", None).grow(1)


def test_addresses_without_bodies_take_no_memory() -> None:
    memory = BodyMemory(LARGEST)
    for number in range(100):
        reserved = memory.reservation(f"a{number}", f"p{number}")
        reserved.grow(1_000)
        reserved.free()

    assert not memory._held  # pyright: ignore[reportPrivateUsage] - its memory.
