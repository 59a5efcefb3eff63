"""Limits on the memory that the bodies of requests take."""

import pytest

from rota.core.errors import Refused
from rota.node.api.requests.body_memory import BODIES_MAX, BODIES_PER_ADDRESS_MAX, BodyMemory

LARGEST = 4 << 20


def test_one_address_leaves_half_to_all_others() -> None:
    memory = BodyMemory(LARGEST)
    for _ in range(BODIES_PER_ADDRESS_MAX // LARGEST):
        memory.reserve("a", LARGEST)

    with pytest.raises(Refused, match="from this address exceed the limit of 128 MiB"):
        memory.reserve("a", 1)
    memory.reserve("b", BODIES_MAX - BODIES_PER_ADDRESS_MAX)


def test_all_addresses_together_have_a_limit() -> None:
    memory = BodyMemory(LARGEST)
    for number in range(BODIES_MAX // LARGEST):
        memory.reserve(f"a{number}", LARGEST)

    with pytest.raises(Refused, match="in flight exceed the limit of 256 MiB"):
        memory.reserve("b", 1)


def test_a_body_of_unknown_length_counts_as_the_largest_until_it_has_come() -> None:
    memory = BodyMemory(BODIES_PER_ADDRESS_MAX)
    reserved = memory.reserve("a", None)
    with pytest.raises(Refused):
        memory.reserve("a", 1)

    reserved.shrink(10)

    memory.reserve("a", BODIES_PER_ADDRESS_MAX - 10)


def test_what_is_freed_can_be_reserved_again() -> None:
    memory = BodyMemory(LARGEST)
    for _ in range(2 * BODIES_MAX // LARGEST):
        reserved = memory.reserve("a", LARGEST)
        reserved.shrink(100)
        reserved.shrink(0)
        reserved.shrink(0)

    memory.reserve("a", LARGEST)


def test_a_largest_body_beyond_the_limits_finds_room() -> None:
    memory = BodyMemory(2 * BODIES_MAX)

    memory.reserve("a", None)

    with pytest.raises(Refused):
        memory.reserve("b", 1)


def test_addresses_without_bodies_take_no_memory() -> None:
    memory = BodyMemory(LARGEST)
    for number in range(100):
        memory.reserve(f"a{number}", 1_000).shrink(0)

    assert not memory._addresses  # pyright: ignore[reportPrivateUsage] - its memory.
