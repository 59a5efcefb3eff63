"""Output of the recovery of etcd's state about recovered and other shards."""

import pytest

from rota.client.cli.cluster.recovery import FOUNDED, WHY_CLOSED, show_plan
from rota.node.recovery.plan import Finding
from rota.node.recovery.procedure import CHANGED
from rota.wire.documents import RecoveryView, ShardRecoveryView


def shard(number: int, outcome: str = "recovered", *copies: str) -> ShardRecoveryView:
    return ShardRecoveryView(
        shard=number,
        outcome=outcome,
        epoch_before=5,
        epoch=6 if copies else None,
        primary=copies[0] if copies else None,
        copies=[*copies],
        missing=[],
    )


def view(*shards: ShardRecoveryView) -> RecoveryView:
    return RecoveryView(generation=2, shards=[*shards], without=[])


def test_recovered_shards_are_counted_by_their_copies(capsys: pytest.CaptureFixture[str]) -> None:
    two, three = ("n1", "n2"), ("n1", "n2", "n3")
    recovered = view(*(shard(n, "recovered", *(two if n < 1 else three)) for n in range(4)))

    is_any_closed = show_plan(recovered, is_dry=False)

    assert not is_any_closed
    assert capsys.readouterr().err == (
        "recovered 4 shards in generation 2\n  with 2 copies: 1 shard\n  with 3 copies: 3 shards\n"
    )


def test_shards_that_stay_closed_are_named_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = [shard(n, "no_copy") for n in range(12)]

    is_any_closed = show_plan(view(*many, shard(30, "unsure")), is_dry=True)

    assert is_any_closed
    assert capsys.readouterr().err.splitlines() == [
        "would recover 0 shards in generation 2",
        "closed: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …: no copy that counts is left",
        f"closed: 30: {WHY_CLOSED['unsure']}",
        "see `rota shard recover`, which opens a shard from one copy",
    ]


@pytest.mark.parametrize("is_dry", [True, False])
def test_shards_that_are_founded_are_named_and_not_closed(
    capsys: pytest.CaptureFixture[str], *, is_dry: bool
) -> None:
    is_any_closed = show_plan(view(shard(3, FOUNDED), shard(5, FOUNDED)), is_dry=is_dry)

    assert not is_any_closed
    assert capsys.readouterr().err.endswith("founded, because no node has data of them: 3, 5\n")


def test_every_reason_for_which_a_shard_stays_closed_has_words() -> None:
    assert set(WHY_CLOSED) == {
        CHANGED,
        *(each.value for each in {*Finding} - {Finding.RECOVERABLE, Finding.NEW}),
    }
