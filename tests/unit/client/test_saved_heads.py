"""A chain that was cut or rewritten since its head was saved is found."""

from pathlib import Path

import pytest

from rota.client.cli.changes.saved_heads import (
    HeadsInvalid,
    SavedHead,
    compared,
    read_heads,
    write_heads,
)
from rota.wire.documents import ChainView

AT = "2027-01-04T12:00:00Z"
SAVED = SavedHead(number=5, hash="aa", at=AT)


def test_heads_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "heads.json"

    assert read_heads(file) == {}
    write_heads(file, [chain(shard=3), chain(shard=4, last=0, changed_at=None)])

    assert read_heads(file) == {3: SAVED}


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2, "heads": {}}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "heads.json"
    file.write_text(content)

    with pytest.raises(HeadsInvalid, match=r"heads\.json"):
        read_heads(file)


def test_a_chain_with_the_saved_change_is_intact() -> None:
    assert compared(chain(), SAVED, lambda shard, head: "not looked up").fault == ""
    assert compared(chain(last=7, hash_="bb"), SAVED, lambda shard, head: "aa").fault == ""
    assert compared(chain(last=7), None, lambda shard, head: "bb").fault == ""


def test_a_chain_that_was_cut_is_found() -> None:
    fault = compared(chain(last=4), SAVED, lambda shard, head: "aa").fault

    assert fault == "the record was cut: its newest change is 4, that in the file is 5"


def test_a_rewritten_chain_is_found_whether_it_has_grown_or_not() -> None:
    for one in (chain(hash_="bb"), chain(last=9, hash_="aa")):
        fault = compared(one, SAVED, lambda shard, head: "bb").fault
        assert fault == "change 5 is not the one in the file: the record was rewritten"


def test_a_change_that_has_expired_is_not_compared() -> None:
    assert compared(chain(first=6, last=9), SAVED, lambda shard, head: "").fault == ""


def chain(
    *,
    shard: int = 1,
    first: int = 1,
    last: int = 5,
    hash_: str = "aa",
    changed_at: str | None = AT,
) -> ChainView:
    return ChainView(
        shard=shard, first=first, last=last, hash=hash_, checked=last, changed_at=changed_at
    )
