"""Choice of the configuration whose copies have every entry that may have been acknowledged.

A journal is written as a text with a character for each entry; the common beginning of two texts
is that of their journals. Entries before the first `|` are dropped, entries before the second one
are known to be committed.
"""

from collections.abc import Mapping

import pytest

from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.vocabulary.shard_configuration import Configuration, Copy
from rota.node.recovery.configuration_lineage import ConfigurationLineage, EntryOf, Hashes
from rota.node.recovery.inventory import HeldCopy

A, B, C, D, E = (NodeId(each) for each in "abcde")
SHARD = ShardId(3)
ROUNDS_MAX = 20


def configuration(epoch: int, names: str, session: str = "s") -> Configuration:
    return Configuration(
        epoch=Epoch(epoch),
        primary=NodeId(names[0]),
        primary_session=Session(session),
        sync=tuple(Copy(NodeId(each), AllocationId(each)) for each in sorted(names)),
    )


class Journal:
    """A copy's journal."""

    def __init__(self, text: str) -> None:
        dropped, committed, rest = text.split("|")
        self.text = dropped + committed + rest
        self.before = Index(len(dropped))
        self.committed = Index(len(dropped + committed))

    def hash_at(self, index: Index) -> bytes:
        """Return the hash of an entry that is not dropped."""
        assert self.before <= index <= len(self.text), "a hash is asked for that is not there"
        return self.text[:index].encode()


def held(seen: Configuration | None, journal: Journal | None, name: str) -> HeldCopy:
    if journal is None:
        return HeldCopy(seen=seen)
    tip = Index(len(journal.text))
    return HeldCopy(
        seen=seen,
        allocation=AllocationId(name),
        before=journal.before,
        committed=journal.committed,
        tip=(Epoch(1), tip),
        tip_hash=journal.hash_at(tip),
    )


Copies = Mapping[NodeId, tuple[Configuration, str | None]]


def sound(copies: Copies, current: Configuration | None = None) -> Configuration | None:
    """Return the sound configuration, found with all the hashes that are requested."""
    journals = {node_id: Journal(text) for node_id, (_, text) in copies.items() if text is not None}
    there = {each: held(seen, journals.get(each), each) for each, (seen, _) in copies.items()}
    known = [seen for seen, _ in copies.values()] + ([current] if current else [])
    hashes: dict[EntryOf, bytes] = {}
    for _ in range(ROUNDS_MAX):
        asked = Hashes(hashes)
        found = ConfigurationLineage(SHARD, there, asked).sound(known)
        if not asked.wanted:
            return found
        hashes |= {each: journals[each.node_id].hash_at(each.number) for each in asked.wanted}
    raise AssertionError("hashes are wanted without an end")


OLD = configuration(8, "abc")
AB = configuration(9, "ab")
CB = configuration(9, "cb")
CB_LATER = configuration(10, "cb", session="later")
CD = configuration(11, "cd")


AC = configuration(8, "ac")
EARLIER = configuration(11, "bde")
DE = configuration(12, "de")
BDE = configuration(12, "bde")
LONG = "x" * 1_000


# -- a stale copy whose entries the journals that count do not have any more ----------------------


def stale_beside(third: tuple[Configuration, str], stale: str = "|x|x") -> Copies:
    """Return copies: of a configuration that two later ones replaced, and a *third* one."""
    trimmed = (DE, "xxxxx|x|")
    return {A: (DE, "|xx|"), B: third, C: (AC, stale), D: trimmed, E: trimmed}


def test_a_third_copy_that_is_followed_shows_that_the_entries_of_a_stale_one_are_contained() -> (
    None
):
    assert sound(stale_beside((EARLIER, "|xxxx|"))) == DE


@pytest.mark.parametrize(
    "copies",
    [
        stale_beside((EARLIER, "|xxxx|"), stale="|x|z"),
        stale_beside((EARLIER, "|x|xxx")),
        stale_beside((DE, "|xxxx|")),
        stale_beside((configuration(9, "bc"), "|xxxx|")),
        stale_beside((EARLIER, "xxx|x|")),
        stale_beside((configuration(9, "bc"), "|xx|"), stale="|xx|"),
    ],
    ids=[
        "the third has other entries",
        "the third has not committed them",
        "the third does not count",
        "nothing follows the third",
        "the third has dropped them",
        "each of two that nothing follows is the third of the other",
    ],
)
def test_a_third_copy_that_proves_nothing_makes_nothing_sound(copies: Copies) -> None:
    assert sound(copies) is None


# -- one line -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ({A: (AB, "|xxx|xx"), B: (AB, "|xx|xx")}, AB),
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (OLD, "|x|")}, AB),
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (OLD, "|x|zz")}, AB),
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (OLD, "|x|zzzz")}, AB),
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (AB, "|x|zz")}, AB),
        ({A: (AB, "xx|x|"), B: (AB, "xx|x|"), C: (OLD, "|x|z")}, AB),
        ({A: (AB, "||xxx"), B: (AB, "||xx"), C: (OLD, "||x")}, AB),
        ({A: (DE, None), C: (OLD, "|x|z"), D: (DE, "|xx|"), E: (DE, "|xx|")}, DE),
        ({A: (DE, None), C: (OLD, "|x|z"), D: (DE, "xx|x|"), E: (DE, "xx|x|")}, DE),
        ({A: (DE, "|xx|"), C: (OLD, "|x|z"), D: (DE, "|xxx|"), E: (DE, "|xxx|")}, DE),
        ({A: (AB, f"|x|{LONG}"), B: (AB, f"|x|{LONG}"), C: (OLD, f"|x|zz{LONG}")}, AB),
        ({A: (AB, "|xx|z"), D: (BDE, "xxx|x|"), E: (BDE, "xxx|x|")}, BDE),
    ],
    ids=[
        "all have seen the same",
        "a stale copy",
        "a stale copy with entries of its own",
        "a stale copy with more entries of its own",
        "a copy that was counted out, and has seen it",
        "a stale copy, and journals that begin later",
        "a restarted node has no record of committed entries",
        "a stale copy, and copies beside it that were given up",
        "likewise, and journals that begin later",
        "a stale copy, and a copy beside it that counts no more",
        "journals with many entries that are not known to be committed",
        "journals that begin later, and the copy is lost that they were filled from",
    ],
)
def test_in_one_line_the_newest_configuration_is_sound(
    copies: Copies, expected: Configuration
) -> None:
    assert sound(copies, OLD) == expected


# -- two lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (CB, "|x|t")}, AB),
        ({A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (CB_LATER, "|x|tt")}, AB),
        ({A: (AB, "|x|xx"), B: (AB, "|x|xx"), C: (CB_LATER, "|x|tt")}, AB),
        ({A: (AB, f"|{LONG}|xx"), B: (AB, f"|{LONG}|x"), C: (CB_LATER, f"|{LONG}|t")}, AB),
        ({A: (AB, "|x|xx"), B: (AB, "|x|"), C: (CB_LATER, "|x|tt")}, CB_LATER),
        ({A: (AB, "|x|"), B: (AB, "|x|"), C: (CB, "|x|t")}, AB),
        ({A: (AB, "|x|"), B: (AB, "|x|"), C: (CD, "|xt|"), D: (CD, "|xt|")}, CD),
        ({A: (AB, "xx|xx|"), B: (AB, "xxxx||"), C: (CB, "|xx|t")}, AB),
    ],
    ids=[
        "the other is one copy alone, under the same epoch",
        "the other is one copy alone, under a later epoch",
        "what was acknowledged is not known to be committed",
        "the first entry that differs decides",
        "one copy alone has more, so that was not acknowledged",
        "neither has anything of its own: either will do",
        "only the later one has acknowledged",
        "the journal of a copy beside the other begins later, and has an entry of this line",
    ],
)
def test_of_two_lines_the_one_that_has_everything_is_sound(
    copies: Copies, expected: Configuration
) -> None:
    assert sound(copies, OLD) == expected


@pytest.mark.parametrize(
    "copies",
    [
        {A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (CD, "|xt|"), D: (CD, "|xt|")},
        {A: (AB, "|x|xx"), B: (AB, "|x|xx"), C: (CD, "|x|t"), D: (CD, "|x|t")},
        {A: (AB, "|xxx|"), B: (AB, "|xxx|"), C: (CD, "xxxx|t|"), D: (CD, "xxxx|t|")},
        {A: (AB, "|xxx|"), B: (AB, None), C: (CB_LATER, "|x|t")},
        {A: (AB, "xx|xx|"), B: (AB, "yyyyy||"), C: (CB_LATER, "|xx|t")},
        {A: (AB, "|xxx|"), B: (AB, None), C: (CB, "|x|t")},
        {A: (AB, None), B: (AB, None), C: (OLD, "|x|")},
        {A: (AB, None), B: (AB, None), C: (configuration(9, "cd"), "|x|")},
        {A: (AB, "|x|"), B: (AB, "|x|"), C: (OLD, "|xxx|")},
    ],
    ids=[
        "both have acknowledged",
        "both may have acknowledged",
        "the journal of the later one begins after the other one ends",
        "the copy is lost that counts in both",
        "the journal of a copy that counts in both begins later, with entries of neither",
        "the copy is lost that counts in both, which have the same epoch",
        "no copy is left of the newest",
        "no copy is left of one of the two newest",
        "a stale copy has what the newest lacks",
    ],
)
def test_nothing_is_sound_where_no_copies_have_everything(copies: Copies) -> None:
    assert sound(copies, OLD) is None


def test_no_hash_is_wanted_where_all_copies_end_with_the_same_entry() -> None:
    journal = Journal("xx|xx|x")
    there = {A: held(AB, journal, A), B: held(AB, journal, B), C: held(OLD, journal, C)}
    hashes = Hashes({})

    assert ConfigurationLineage(SHARD, there, hashes).sound([AB, OLD]) == AB

    assert not hashes.wanted


@pytest.mark.parametrize(("least", "is_sound"), [(1, False), (2, True)])
def test_a_copy_that_was_founded_once_more_and_too_few_to_commit_closes_nothing(
    least: int, is_sound: bool
) -> None:
    again = configuration(1, "d")
    journals = {A: Journal("xy|z|"), B: Journal("xy|z|"), D: Journal("||t")}
    seen = {A: AB, B: AB, D: again}
    there = {each: held(seen[each], journals[each], each) for each in journals}

    found = ConfigurationLineage(SHARD, there, Hashes({}), least).sound([AB, again])

    assert (found == AB) is is_sound
