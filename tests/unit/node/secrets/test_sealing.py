"""Encryption of secrets: a box opens for its own version of its own name, and for no other."""

import os

import pytest
from msgspec.structs import replace

from rota.node.secrets.sealing import (
    CannotOpen,
    Identity,
    Sealed,
    open_sealed,
    rewrapped,
    seal,
    sealed_in,
)
from rota.wire.key_rings import KeyRing
from support.key_rings import new_key, ring_of

VALUE = b"correct horse battery staple"
IDENTITY = Identity("default", "team-a", "db", 3)


def sealed_with(ring: KeyRing, identity: Identity = IDENTITY) -> Sealed:
    return seal(VALUE, identity, ring, os.urandom, set_at="2027-01-01T00:00:00Z", set_by="ana")


def test_a_box_is_opened_with_the_key_that_made_it_also_when_another_is_in_use() -> None:
    old, new = new_key(), new_key()
    sealed = sealed_with(ring_of(old))

    assert open_sealed(sealed, IDENTITY, ring_of(old)) == VALUE
    assert open_sealed(sealed, IDENTITY, ring_of(new, old)) == VALUE


@pytest.mark.parametrize(
    "other",
    [
        IDENTITY._replace(cluster="other"),
        IDENTITY._replace(namespace="team-b"),
        IDENTITY._replace(name="db2"),
        IDENTITY._replace(version=2),
        IDENTITY._replace(version=4),
    ],
)
def test_a_box_does_not_open_under_another_name_or_version(other: Identity) -> None:
    ring = ring_of(new_key())
    sealed = sealed_with(ring)

    with pytest.raises(CannotOpen, match="damaged, or belongs to another"):
        open_sealed(sealed, other, ring)
    with pytest.raises(CannotOpen, match="damaged, or belongs to another"):
        rewrapped(sealed, other, ring, os.urandom)


def test_a_box_with_the_data_key_of_another_secret_does_not_open() -> None:
    ring = ring_of(new_key())
    ours, theirs = sealed_with(ring), sealed_with(ring, IDENTITY._replace(name="other"))

    for mixed in (replace(ours, wrapped=theirs.wrapped), replace(ours, box=theirs.box)):
        with pytest.raises(CannotOpen):
            open_sealed(mixed, IDENTITY, ring)


def test_the_value_itself_is_bound_to_the_identity_and_not_only_its_data_key() -> None:
    """With one data key for two boxes, as a writer with the key ring could make them."""
    ring, data_key = ring_of(new_key()), new_key()
    fixed = iter([data_key, os.urandom(12), os.urandom(12)] * 2)

    def random(count: int) -> bytes:
        return next(fixed)[:count]

    other = IDENTITY._replace(name="other")
    ours = seal(VALUE, IDENTITY, ring, random, set_at="", set_by="")
    theirs = seal(VALUE, other, ring, random, set_at="", set_by="")

    with pytest.raises(CannotOpen):
        open_sealed(replace(ours, box=theirs.box), IDENTITY, ring)


def test_a_box_without_its_key_names_the_key_that_is_missing() -> None:
    ring, other = ring_of(new_key()), ring_of(new_key())
    sealed = sealed_with(ring)

    with pytest.raises(CannotOpen, match=f"lacks the key {ring.in_use}; it has {other.in_use}"):
        open_sealed(sealed, IDENTITY, other)


def test_a_rewrap_changes_the_data_key_alone() -> None:
    old, new = new_key(), new_key()
    sealed = sealed_with(ring_of(old))

    fresh = rewrapped(sealed, IDENTITY, ring_of(old, new, in_use=1), os.urandom)

    assert fresh.box == sealed.box
    assert fresh.version == sealed.version
    assert open_sealed(fresh, IDENTITY, ring_of(new)) == VALUE
    with pytest.raises(CannotOpen):
        open_sealed(fresh, IDENTITY, ring_of(old))


def test_no_nonce_and_no_data_key_is_used_twice() -> None:
    ring, drawn = ring_of(new_key()), list[bytes]()

    def random(count: int) -> bytes:
        drawn.append(os.urandom(count))
        return drawn[-1]

    boxes = [seal(VALUE, IDENTITY, ring, random, set_at="", set_by="").box for _ in range(100)]

    assert len(set(boxes)) == 100
    assert len(drawn) == len(set(drawn)) == 300


def test_a_damaged_document_is_refused() -> None:
    ring = ring_of(new_key())
    sealed = sealed_with(ring)

    for damaged in (
        replace(sealed, box="?"),
        replace(sealed, box=""),
        replace(sealed, wrapped="AAAA"),
    ):
        with pytest.raises(CannotOpen):
            open_sealed(damaged, IDENTITY, ring)
    with pytest.raises(CannotOpen, match="not understood"):
        sealed_in({"version": 0, "kek": "k", "wrapped": "", "box": ""})
