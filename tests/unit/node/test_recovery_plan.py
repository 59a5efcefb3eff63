"""Plans of recovery after the loss of the coordinator's state, from the inventories of nodes."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.ids import AllocationId, Epoch, Index, NodeId, Session, ShardId
from rota.core.replication.coordinator_continuity import CoordinatorContinuity
from rota.core.vocabulary.shard_configuration import NO_SESSION, Configuration, Copy, first_epoch
from rota.node.coordination.coordinator import Cluster, Life, Member, View
from rota.node.recovery.configuration_lineage import Hashes
from rota.node.recovery.inventory import HeldCopy, Inventory
from rota.node.recovery.plan import EPOCHS_END, Finding, RecoveryPlan, ShardPlan, plan_from, plan_of

A, B, C, D = (NodeId(each) for each in "abcd")
SHARD = ShardId(0)
LEAST = 2
NO_HASHES = Hashes({})
"""No hash is needed where all copies end with the same entry."""
CLUSTER = Cluster(id="cluster", shards=8, replicas=3)


def configuration(epoch: int, *sync: NodeId, primary: NodeId | None = None) -> Configuration:
    return Configuration(
        epoch=Epoch(epoch),
        primary=primary or sync[0],
        primary_session=Session("s"),
        sync=tuple(Copy(each, copy_of(each)) for each in sync),
    )


def copy_of(node_id: NodeId) -> AllocationId:
    return AllocationId(f"{node_id}1")


def held(
    node_id: NodeId,
    seen: Configuration | None,
    *,
    promised: int | None = None,
    tip: tuple[int, int] = (1, 1),
    is_whole: bool = True,
) -> HeldCopy:
    return HeldCopy(
        seen=seen,
        promised=Epoch(promised if promised is not None else seen.epoch if seen else 0),
        allocation=copy_of(node_id) if is_whole else None,
        tip=(Epoch(tip[0]), Index(tip[1])),
        committed=Index(1),
    )


def inventories(
    held_by: Mapping[NodeId, HeldCopy], lost: int | None = 0
) -> dict[NodeId, Inventory]:
    return {
        node_id: Inventory(lost=lost, shards={SHARD: each}) for node_id, each in held_by.items()
    }


def view(
    current: Configuration | None = None,
    *members: NodeId,
    cluster: Cluster | None = CLUSTER,
    alive: tuple[NodeId, ...] = (),
) -> View:
    return View(
        revision=1,
        configurations={SHARD: current} if current else {},
        lives={each: Life(session=Session("s"), store_id=each) for each in alive},
        members={
            each: Member(node_id=each, store_id=each, address="") for each in members or (A, B, C)
        },
        cluster=cluster,
    )


OLD = configuration(5, A, B, C)
NEW = configuration(6, A, B)
THREE = {A: held(A, NEW), B: held(B, NEW), C: held(C, OLD)}
"""The copy of c is stale, and etcd was restored to a backup that names it."""

FORKED_C = HeldCopy(
    seen=configuration(6, C, A),
    promised=Epoch(6),
    allocation=copy_of(C),
    committed=Index(1),
    tip=(Epoch(6), Index(1)),
    tip_hash=b"another entry",
)
"""The copy of c, which took entries after the restored state while a and b were away."""


def only(plan: RecoveryPlan) -> ShardPlan:
    [shard] = plan.shards
    return shard


# -- which configuration is written ---------------------------------------------------------------


def test_the_newest_configuration_that_a_node_has_seen_is_written_in_a_new_generation() -> None:
    plan = plan_of(view(OLD), inventories(THREE), NO_HASHES, least=LEAST)

    shard = only(plan)
    assert plan.generation == 1
    assert shard.finding is Finding.RECOVERABLE
    assert shard.expected == OLD
    assert shard.fresh == Configuration(
        epoch=first_epoch(1), primary=A, primary_session=NO_SESSION, sync=NEW.sync
    )


def test_a_configuration_that_a_node_without_a_copy_of_it_has_seen_counts() -> None:
    reported = inventories({A: held(A, OLD), B: held(B, OLD), C: held(C, configuration(6, A, C))})

    shard = only(plan_of(view(OLD), reported, NO_HASHES, least=LEAST))

    assert shard.fresh is not None
    assert [copy.node_id for copy in shard.fresh.sync] == [A, C]


def test_a_configuration_that_only_the_coordinator_has_counts() -> None:
    reported = inventories({A: held(A, OLD), B: held(B, OLD), C: held(C, OLD)})

    shard = only(plan_of(view(NEW), reported, NO_HASHES, least=LEAST))

    assert shard.fresh is not None
    assert shard.fresh.sync == NEW.sync


def test_an_empty_coordinator_gets_the_configuration_that_nodes_have_seen() -> None:
    plan = plan_of(
        view(None, D, cluster=None), inventories({**THREE, D: HeldCopy()}), NO_HASHES, least=LEAST
    )

    shard = only(plan)
    assert shard.expected is None
    assert shard.fresh is not None
    assert shard.fresh.sync == NEW.sync


def test_a_copy_that_is_not_on_its_disk_does_not_count() -> None:
    reported = inventories({**THREE, A: held(A, NEW, is_whole=False)})

    shard = only(plan_of(view(OLD), reported, NO_HASHES, least=LEAST))

    assert shard.fresh is not None
    assert shard.fresh.primary == B
    assert [copy.node_id for copy in shard.fresh.sync] == [B]


@pytest.mark.parametrize(
    ("tip_b", "tip_c", "primary"),
    [((6, 9), (5, 99), B), ((5, 9), (5, 10), C), ((5, 9), (5, 9), B)],
    ids=["higher epoch", "higher index", "the first of equals"],
)
def test_the_primary_is_the_copy_with_the_longest_journal_where_the_primary_is_lost(
    tip_b: tuple[int, int], tip_c: tuple[int, int], primary: NodeId
) -> None:
    seen = configuration(6, A, B, C)
    reported = inventories({B: held(B, seen, tip=tip_b), C: held(C, seen, tip=tip_c)})

    shard = only(plan_of(view(OLD), reported, NO_HASHES, without=[A], least=LEAST))

    assert shard.fresh is not None
    assert shard.fresh.primary == primary
    assert [copy.node_id for copy in shard.fresh.sync] == [B, C]


def test_a_shard_that_no_node_has_seen_is_left_alone() -> None:
    reported = {each: Inventory(lost=0, shards={}) for each in (A, B, C)}

    plan = plan_of(view(), reported, NO_HASHES, least=LEAST)

    assert plan == RecoveryPlan(generation=1, shards=())


@pytest.mark.parametrize("begun", [HeldCopy(), HeldCopy(allocation=copy_of(A))], ids=["", "begun"])
def test_a_shard_of_which_no_node_has_anything_is_founded(begun: HeldCopy) -> None:
    reported = {
        **inventories({A: begun}),
        **{each: Inventory(lost=0, shards={}) for each in (B, C)},
    }

    plan = plan_of(view(), reported, NO_HASHES, least=LEAST, count=2)

    assert plan.generation == 1
    assert [each.finding for each in plan.shards] == [Finding.NEW, Finding.NEW]
    assert not any(each.fresh for each in plan.shards)


@pytest.mark.parametrize(
    ("without", "wiped", "finding"),
    [
        ([], [], Finding.NEW),
        ([C], [], Finding.NEW),
        ([], [A], Finding.NEW),
        ([B, C], [], Finding.UNSURE),
        ([], [A, B], Finding.UNSURE),
        ([A], [B], Finding.UNSURE),
    ],
)
def test_a_shard_is_not_founded_where_as_many_nodes_may_have_had_it_as_may_commit(
    without: list[NodeId], wiped: list[NodeId], finding: Finding
) -> None:
    held_by = {
        each: held(each, OLD, is_whole=each not in wiped)
        for each in (A, B, C)
        if each not in without
    }
    reported = inventories(held_by)

    cautious = plan_of(view(OLD), reported, NO_HASHES, without=without, least=LEAST, count=2)
    bold = plan_of(
        view(OLD), reported, NO_HASHES, without=without, least=LEAST, count=2, accepts_loss=True
    )

    assert cautious.shards[1].finding is finding
    assert cautious.shards[1].fresh is None
    assert bold.shards[1].finding is Finding.NEW


FIRST = configuration(1, A)
"""The first configuration of a shard, with too few copies for a commit."""


@pytest.mark.parametrize(
    ("seen_by", "without", "finding"),
    [
        ((A, B, C), [], Finding.NEW),
        ((B, C), [], Finding.NEW),
        ((C,), [], Finding.UNSURE),
        ((B,), [C], Finding.UNSURE),
    ],
)
def test_a_shard_whose_only_copy_was_lost_before_it_could_commit_is_founded_again(
    seen_by: tuple[NodeId, ...], without: list[NodeId], finding: Finding
) -> None:
    reported = inventories(
        {
            each: HeldCopy(seen=FIRST) if each in seen_by else HeldCopy()
            for each in (A, B, C)
            if each not in without
        }
    )

    cautious = only(plan_of(view(), reported, NO_HASHES, without=without, least=LEAST))
    bold = only(
        plan_of(view(), reported, NO_HASHES, without=without, least=LEAST, accepts_loss=True)
    )

    assert (cautious.finding, cautious.fresh) == (finding, None)
    assert (bold.finding, bold.fresh) == (Finding.NEW, None)


@pytest.mark.parametrize(
    ("current", "seen", "found"),
    [
        (None, configuration(1, A, B), HeldCopy()),
        (None, FIRST, HeldCopy(tip=(Epoch(1), Index(1)))),
        (FIRST, FIRST, HeldCopy()),
    ],
    ids=["it may have committed", "there is an entry", "the coordinator has a configuration"],
)
def test_a_shard_that_lost_its_copies_later_is_not_founded_again(
    current: Configuration | None, seen: Configuration, found: HeldCopy
) -> None:
    reported = inventories({A: found, B: HeldCopy(seen=seen), C: HeldCopy(seen=seen)})

    there = view(current) if current else view()

    plan = only(plan_of(there, reported, NO_HASHES, least=LEAST, accepts_loss=True))

    assert plan.finding is Finding.NO_COPY


# -- generations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "changed", "cluster_generation", "lost", "generation"),
    [
        (OLD, {}, 0, 0, 1),
        (OLD, {}, 4, 0, 5),
        (OLD, {}, 0, 3, 4),
        (OLD, {C: held(C, configuration(first_epoch(7), A, B))}, 0, 7, 8),
    ],
    ids=["first", "of the record", "lost", "seen"],
)
def test_the_generation_is_above_every_one_that_is_known(
    current: Configuration,
    changed: Mapping[NodeId, HeldCopy],
    cluster_generation: int,
    lost: int,
    generation: int,
) -> None:
    cluster = Cluster(id="cluster", shards=8, replicas=3, generation=cluster_generation)
    reported = inventories({**THREE, **changed}, lost)

    plan = plan_of(view(current, cluster=cluster), reported, NO_HASHES, least=LEAST)

    assert plan.generation == generation
    fresh = only(plan).fresh
    assert fresh is not None
    assert fresh.epoch == first_epoch(generation)


def test_a_second_run_writes_what_the_first_one_did_not() -> None:
    other = ShardId(1)
    cluster = Cluster(id="cluster", shards=8, replicas=3, generation=1)
    done = configuration(first_epoch(1), A, B)
    reported = {
        each: Inventory(lost=0, shards={SHARD: held(each, done), other: held(each, NEW)})
        for each in (A, B)
    }
    there = View(
        revision=1,
        configurations={SHARD: done, other: OLD},
        lives={},
        members={},
        cluster=cluster,
    )

    plan = plan_of(there, reported, NO_HASHES, without=[C], least=LEAST)

    assert plan.generation == 2
    assert [each.shard for each in plan.shards] == [other]


def test_an_epoch_beyond_the_highest_is_refused() -> None:
    last = configuration(EPOCHS_END - 1, A, B)

    refusal = refused(view(OLD), inventories({A: held(A, last), B: held(B, last)}, 0), [C])

    assert refusal.code == "epochs_exhausted"


# -- shards that stay closed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "without", "finding"),
    [
        (
            {A: held(A, NEW, is_whole=False), B: held(B, NEW, is_whole=False)},
            [],
            Finding.NO_COPY,
        ),
        ({C: held(C, OLD, promised=7)}, [], Finding.UNKNOWN_CONFIGURATION),
        ({C: held(C, OLD, promised=EPOCHS_END - 1)}, [], Finding.UNKNOWN_CONFIGURATION),
        ({C: held(C, OLD, tip=(7, 1))}, [], Finding.UNKNOWN_CONFIGURATION),
        ({C: FORKED_C}, [], Finding.FORKED),
    ],
)
def test_a_shard_that_is_not_certain_stays_closed(
    changed: Mapping[NodeId, HeldCopy], without: list[NodeId], finding: Finding
) -> None:
    reported = inventories({**THREE, **changed})

    plan = plan_of(view(OLD), reported, NO_HASHES, without=without, least=LEAST, accepts_loss=True)

    assert plan.generation == 1
    shard = only(plan)
    assert shard.finding is finding
    assert shard.fresh is None


class Missing(NamedTuple):
    """Nodes that are lost or lost their data, and the resulting finding."""

    without: list[NodeId]
    wiped: list[NodeId]
    finding: Finding


@pytest.mark.parametrize(
    "missing",
    [
        Missing([A], [], Finding.RECOVERABLE),
        Missing([], [A], Finding.RECOVERABLE),
        Missing([A, B], [], Finding.UNSURE),
        Missing([], [A, B], Finding.UNSURE),
        Missing([A], [B], Finding.UNSURE),
    ],
)
def test_a_shard_is_not_certain_where_as_many_nodes_are_missing_as_may_commit(
    missing: Missing,
) -> None:
    # They may have formed a configuration of their own, which no other node has seen.
    held_by = {
        each: held(each, OLD, is_whole=each not in missing.wiped)
        for each in (A, B, C)
        if each not in missing.without
    }
    reported, without = inventories(held_by), missing.without

    cautious = only(plan_of(view(OLD), reported, NO_HASHES, without=without, least=LEAST))
    bold = only(
        plan_of(view(OLD), reported, NO_HASHES, without=without, least=LEAST, accepts_loss=True)
    )

    assert cautious.finding is missing.finding
    assert (cautious.fresh is not None) is (missing.finding is Finding.RECOVERABLE)
    assert bold.fresh is not None


@pytest.mark.parametrize("current", ["set back", "emptied"])
def test_a_node_with_another_disk_than_before_is_missing_though_no_configuration_names_it(
    current: str,
) -> None:
    # 9: A and C. 10: A, C and D, which C did not see. 11: A and D, which commit alone. Then A's
    # machine is lost, and D's disk is exchanged.
    before, nine = configuration(8, A, B, C), configuration(9, A, C)
    reported = inventories({B: held(B, before), C: held(C, nine), D: HeldCopy()})
    there = view(before if current == "set back" else None, A, B, C, D)

    shard = only(plan_of(there, reported, NO_HASHES, without=[A], least=LEAST))

    assert shard.finding is Finding.UNSURE
    assert shard.fresh is None


# -- refusals -------------------------------------------------------------------------------------


def refused(there: View, reported: Mapping[NodeId, Inventory], without: list[NodeId]) -> Refused:
    with pytest.raises(Refused) as refusal:
        plan_of(there, reported, NO_HASHES, without=without, least=LEAST)
    return refusal.value


def test_a_recovery_is_refused_where_no_node_has_detected_a_loss() -> None:
    assert refused(view(NEW), inventories(THREE, None), []).code == "coordination_sound"


def test_a_recovery_is_refused_where_everything_is_recovered() -> None:
    cluster = Cluster(id="cluster", shards=8, replicas=3, generation=1)
    done = configuration(first_epoch(1), A, B)
    reported = inventories({each: held(each, done) for each in (A, B, C)})

    assert refused(view(done, cluster=cluster), reported, []).code == "coordination_sound"


@pytest.mark.parametrize(
    ("members", "answering", "missing"),
    [((A, B, C), (B, C), A), ((B, C), (B, C), A), ((A, B, C, D), (A, B, C), D)],
    ids=["on record and counting", "only counting", "only on record"],
)
def test_a_node_that_does_not_answer_has_to_be_named(
    members: tuple[NodeId, ...], answering: tuple[NodeId, ...], missing: NodeId
) -> None:
    reported = inventories({each: THREE[each] for each in answering})

    refusal = refused(view(OLD, *members), reported, [])

    assert refusal.code == "nodes_unreached"
    assert f"`rota cluster recover-coordination --without {missing}`" in refusal.detail
    assert plan_of(view(OLD, *members), reported, NO_HASHES, without=[missing], least=LEAST).shards


def test_a_node_that_lives_is_not_left_out() -> None:
    assert refused(view(OLD), inventories(THREE), [A]).code == "node_alive"
    two = inventories({each: THREE[each] for each in (B, C)})
    refusal = refused(view(OLD, alive=(A,)), two, [A])
    assert refusal.code == "node_alive"
    assert refusal.detail.endswith("`rota cluster recover-coordination`")


def test_a_live_node_that_does_not_answer_may_have_detected_a_loss() -> None:
    reported = inventories({A: THREE[A]}, None)

    refusal = refused(view(OLD, alive=(A, B)), reported, [])

    assert refusal.code == "nodes_unreached"
    assert "`rota cluster recover-coordination --url http://" in refusal.detail


def test_the_command_for_a_node_that_does_not_answer_has_the_url_of_its_api() -> None:
    seen = view(OLD, alive=(B,))
    secured = Member(node_id=B, store_id="b", address="b.example:7400", api_tls=True)
    seen = replace(seen, members={**seen.members, B: secured})

    refusal = refused(seen, inventories({A: THREE[A]}, None), [])

    assert "--url https://b.example:7400 --dry-run`" in refusal.detail


def test_the_command_that_a_refusal_names_has_what_was_given_already() -> None:
    reported = inventories({C: THREE[C]})

    with pytest.raises(Refused) as whole:
        plan_of(
            view(OLD, A, B, C), reported, NO_HASHES, without=[A], least=LEAST, accepts_loss=True
        )
    sound = inventories({C: THREE[C]}, None)
    with pytest.raises(Refused) as single:
        plan_from(SHARD, C, view(NEW, A, B, C), sound, NO_HASHES, without=[B], least=LEAST)

    named = "--accept-loss --without a --without b`"
    assert f"`rota cluster recover-coordination {named}" in whole.value.detail
    assert f"`rota shard recover {SHARD} --from c --without a --without b`" in single.value.detail


def test_a_node_that_is_no_member_cannot_be_left_out() -> None:
    assert refused(view(OLD), inventories(THREE), [D]).code == "node_not_found"


def test_a_node_that_has_not_learned_of_the_loss_is_waited_for() -> None:
    reported = {**inventories(THREE), **inventories({B: THREE[B]}, None)}

    refusal = refused(view(OLD), reported, [])
    assert refusal.code == "nodes_unaware"
    assert "b has not detected" in refusal.detail


def test_a_node_that_cannot_accept_the_report_of_a_loss_can_be_left_out() -> None:
    """C was away when a repair overtook a promise more than 1,000 generations above its own."""
    repaired = configuration(first_epoch(5_000), A, B)
    lost = inventories({A: held(A, repaired), B: held(B, repaired)}, 5_000)
    reported = {**lost, **inventories({C: THREE[C]})}
    away = CoordinatorContinuity()

    assert not away.accept_report(5_000, A)
    assert refused(view(OLD), reported, []).code == "nodes_unaware"
    plan = plan_of(view(OLD), lost, NO_HASHES, without=[C], least=LEAST)

    assert plan.generation == 5_001
    assert away.is_void(first_epoch(plan.generation)) is False


# -- from one copy --------------------------------------------------------------------------------

LATER = Cluster(id="cluster", shards=8, replicas=3, generation=1)


def test_one_copy_becomes_the_configuration_where_no_copy_that_counts_is_left() -> None:
    reported = inventories({C: held(C, NEW, tip=(5, 9))}, None)

    plan = plan_from(SHARD, C, view(NEW), reported, NO_HASHES, without=[A, B], least=LEAST)

    assert plan.generation == 1
    assert only(plan).expected == NEW
    assert only(plan).fresh == Configuration(
        epoch=first_epoch(1),
        primary=C,
        primary_session=NO_SESSION,
        sync=(Copy(C, copy_of(C)),),
    )


def test_one_copy_is_chosen_where_the_shard_has_forked() -> None:
    reported = inventories({**THREE, C: FORKED_C})

    plan = plan_from(SHARD, B, view(OLD, cluster=LATER), reported, NO_HASHES, least=LEAST)

    assert plan.generation == 2
    fresh = only(plan).fresh
    assert fresh is not None
    assert fresh.members == (B,)


def test_one_copy_is_chosen_under_an_epoch_above_a_promise_that_nothing_explains() -> None:
    reported = inventories({**THREE, C: held(C, OLD, promised=first_epoch(9))})

    plan = plan_from(SHARD, B, view(OLD, cluster=LATER), reported, NO_HASHES, least=LEAST)

    assert plan.generation == 10


@pytest.mark.parametrize(
    ("there", "held_by", "without", "code"),
    [
        (view(NEW), THREE, [], "copies_alive"),
        (view(OLD, cluster=LATER), THREE, [], "copies_alive"),
        (view(NEW), {C: THREE[C]}, [B], "nodes_unreached"),
        (view(NEW, A, B, C, D), {C: held(C, NEW, is_whole=False)}, [A, B, D], "copy_missing"),
    ],
)
def test_one_copy_is_refused(
    there: View, held_by: Mapping[NodeId, HeldCopy], without: list[NodeId], code: str
) -> None:
    lost = 0 if there.cluster == LATER else None

    with pytest.raises(Refused) as refusal:
        plan_from(
            SHARD, C, there, inventories(held_by, lost), NO_HASHES, without=without, least=LEAST
        )

    assert refusal.value.code == code


def test_one_copy_is_refused_before_the_cluster_is_recovered() -> None:
    with pytest.raises(Refused) as refusal:
        plan_from(SHARD, C, view(OLD), inventories(THREE), NO_HASHES, least=LEAST)

    assert refusal.value.code == "coordination_lost"
