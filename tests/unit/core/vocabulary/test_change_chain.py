"""A row of a chain that is changed, removed or inserted is found."""

from msgspec.structs import replace

from rota.core.model.author import Author
from rota.core.model.ids import JobId
from rota.core.timing.instants import Instant
from rota.core.vocabulary.change_chain import (
    NO_CHANGES,
    Action,
    ChainCheck,
    ChangeChain,
    SealedChange,
    UserChange,
    change_key,
    opened,
    position_of,
    sealed,
)

ALICE = Author(principal="alice", key="3fGh81Qz", request="018f6a0e", address="10.12.7.31")
NOON = Instant(1_800_000_000_000_000)
Rows = dict[str, SealedChange | None]


def test_intact_rows_have_no_fault() -> None:
    chain, rows = chain_of(4)

    check = checked(chain, rows)

    assert (check.count, check.fault) == (4, "")
    assert checked(NO_CHANGES, {}).fault == ""


def test_a_row_that_was_changed_is_found() -> None:
    chain, rows = chain_of(4)
    forged = opened_at(rows, 2)
    body = sealed(NO_CHANGES, replace(forged, number=1, author=None))[0].body

    for row in (
        SealedChange(body, sealed_at(rows, 2).hash),
        replace(sealed_at(rows, 2), hash=bytes(32)),
    ):
        assert "change 2 " in checked(chain, rows | {key_of(2): row}).fault


def test_a_row_that_was_changed_with_its_hash_is_found_at_the_next_one() -> None:
    chain, rows = chain_of(4)
    before = ChangeChain(last=1, hash=sealed_at(rows, 1).hash)
    forged, _ = sealed(before, replace(opened_at(rows, 2), author=None))

    found = checked(chain, rows | {key_of(2): forged})

    assert found.fault == "change 3 does not follow the one before it: one of both was changed"


def test_the_newest_row_that_was_changed_with_its_hash_is_found_by_the_head() -> None:
    chain, rows = chain_of(4)
    before = ChangeChain(last=3, hash=sealed_at(rows, 3).hash)
    forged, _ = sealed(before, replace(opened_at(rows, 4), author=None))

    found = checked(chain, rows | {key_of(4): forged})

    assert found.fault == "change 4 is not the one that the shard's state names"


def test_rows_that_were_removed_are_found() -> None:
    chain, rows = chain_of(5)

    faults = [checked(chain, without(rows, *gone)).fault for gone in ((1,), (2, 3), (4, 5))]

    assert faults == [
        "change 1 is missing",
        "changes 2 to 3 are missing",
        "changes 4 to 5 are missing",
    ]


def test_a_row_that_was_inserted_is_found() -> None:
    chain, rows = chain_of(3)
    extra = sealed_at(rows, 2)

    assert "second change 2" in checked(chain, rows | {change_key(at(3), 2): extra}).fault
    assert "change 4 was inserted" in checked(chain, rows | {key_of(4): extra}).fault


def test_a_row_that_was_moved_to_another_instant_is_found() -> None:
    chain, rows = chain_of(1)

    found = checked(chain, {change_key(at(2), 1): rows[key_of(1)]})

    assert found.fault == "change 1 is stored under the key of another change"


def test_a_row_that_cannot_be_read_is_found() -> None:
    chain, rows = chain_of(3)

    for row in (None, replace(sealed_at(rows, 2), body=b"\xc1")):
        assert checked(chain, rows | {key_of(2): row}).fault == "change 2 cannot be read"


def test_rows_after_those_that_expired_are_checked_from_the_anchor() -> None:
    chain, rows = chain_of(4)
    anchor = sealed_at(rows, 2).hash
    later_rows = without(rows, 1, 2)

    assert checked(replace(chain, first=3, anchor=anchor), later_rows).fault == ""
    assert "change 3 " in checked(replace(chain, first=3, anchor=bytes(32)), later_rows).fault


def test_the_row_after_one_that_was_unreadable_when_it_expired_is_not_checked_against_it() -> None:
    chain, rows = chain_of(4)
    forged = replace(sealed_at(rows, 4), hash=bytes(32))
    later_rows = without(rows, 1, 2)
    chain = replace(chain, first=3, anchor=b"")

    assert checked(chain, later_rows).fault == ""
    assert "change 4 " in checked(chain, later_rows | {key_of(4): forged}).fault


def test_changes_that_are_made_during_the_check_are_no_fault() -> None:
    _, rows = chain_of(4)
    before, _ = chain_of(3)

    check = checked(before, rows, last=4)

    assert (check.count, check.fault) == (3, "")


def test_a_change_of_every_rota_before_is_read_and_has_its_hash() -> None:
    """The bytes are part of the data format: hashes of stored rows cover them."""
    _, rows = chain_of(1)

    row = sealed_at(rows, 1)

    assert row.body.hex() == BODIES[-1]
    assert row.hash.hex() == HASHES[-1]
    for body, digest in zip(BODIES, HASHES, strict=True):
        stored = SealedChange(bytes.fromhex(body), bytes.fromhex(digest))
        head = ChangeChain(last=1, hash=stored.hash)
        assert opened(stored) == change(1)
        assert checked(head, {change_key(at(1), 1): stored}).fault == ""


BODIES = (
    (
        "9a01cf0006651728988001ac6a6f622e7265706c6163656494a5616c696365a8336647683831517aa830313866"
        "36613065aa31302e31322e372e3331ab64656661756c742f6a6f62b037343065303030303030303030303031a0"
        "0102a0"
    ),
    (
        "9b01cf0006651728988001ac6a6f622e7265706c6163656494a5616c696365a8336647683831517aa830313866"
        "36613065aa31302e31322e372e3331ab64656661756c742f6a6f62b037343065303030303030303030303031a0"
        "0102a0c0"
    ),
)
"""All forms of a change, the newest last. Never change or remove one."""
HASHES = (
    "d568d96b743df5082e407ce07bc5024147ea833b58d381acdbc9782bf49f7fd1",
    "b85be49b90515fa6a142013dd9e9245996038b969ada876a884647f301d8d41f",
)


def change(number: int) -> UserChange:
    return UserChange(
        number=number,
        at=at(number),
        action=Action.JOB_REPLACED,
        author=ALICE,
        job="default/job",
        job_id=JobId("740e000000000001"),
        before=number,
        after=number + 1,
    )


def chain_of(count: int) -> tuple[ChangeChain, Rows]:
    chain = NO_CHANGES
    rows: Rows = {}
    for number in range(1, count + 1):
        rows[key_of(number)], chain = sealed(chain, change(number))
    return chain, rows


def checked(chain: ChangeChain, rows: Rows, last: int | None = None) -> ChainCheck:
    check = ChainCheck(chain)
    for key in sorted(rows):
        check.add(key, rows[key])
    check.finish(chain.last if last is None else last)
    return check


def without(rows: Rows, *numbers: int) -> Rows:
    return {key: row for key, row in rows.items() if position_of(key)[1] not in numbers}


def sealed_at(rows: Rows, number: int) -> SealedChange:
    row = rows[key_of(number)]
    assert row is not None
    return row


def opened_at(rows: Rows, number: int) -> UserChange:
    found = opened(sealed_at(rows, number))
    assert found is not None
    return found


def key_of(number: int) -> str:
    return change_key(at(number), number)


def at(number: int) -> Instant:
    return Instant(NOON + number)
