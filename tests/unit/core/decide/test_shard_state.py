"""Order of a shard's state, and data shared with its forks."""

from rota.core.decide.dispatch import decide
from rota.core.vocabulary.commands import DeleteJob
from rota.core.vocabulary.decision import NO_SLOTS, Situation
from unit.core.shard import Shard, task


def test_names_are_in_order_whatever_comes_and_goes() -> None:
    shard = Shard()
    made = {name: shard.save(name=name) for name in ("c", "a", "d", "b", "a-b")}

    shard.delete(made["d"])
    shard.save(task("other"), name="c2")

    expected = ["default/a", "default/a-b", "default/b", "default/c", "default/c2"]
    assert shard.state.sorted_names == expected
    assert shard.reloaded().sorted_names == expected


def test_tasks_are_in_the_order_of_their_definition_after_a_restart_too() -> None:
    shard = Shard()
    names = ["z", "m", "a", "k"]

    execution_id = shard.run(*(task(name) for name in names))

    assert list(shard.state.tasks[execution_id]) == names
    assert list(shard.reloaded().tasks[execution_id]) == names


def test_a_fork_goes_its_own_way() -> None:
    shard = Shard(slots=0)
    job_id = shard.save(dependencies=("default/up",))
    shard.trigger(job_id)
    before = shard.state.fork()

    fork = shard.state.fork()
    situation = Situation(
        now=shard.clock,
        entropy=0,
        position=shard.copy.position,
        slots=NO_SLOTS,
    )
    for change in decide(fork, DeleteJob(job_id=job_id), situation).changes:
        fork.apply(change)

    left = (fork.jobs, fork.names, fork.executions, fork.live, fork.sorted_names)
    assert not any(left)
    assert shard.state.fork() == before
    assert before.jobs
