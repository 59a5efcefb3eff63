"""The run of one seed: faults, recovery, and quiet."""

from random import Random

from rota.core.timing.instants import SECOND, Duration
from sim.protocol.checks import Violation
from sim.protocol.faults import APART, FAULTS, RARE, heal, meet_fault
from sim.protocol.plan import MS, TIMING, Plan, draw_plan
from sim.protocol.recovery import Unnoticeable
from sim.protocol.world import World
from sim.seeds import Result
from sim.sizes import in_use

FAULTS_FOR = Duration(40 * SECOND)
LEFT_OVER_FOR = Duration(6 * SECOND)
"""Time for operations that began before the faults ended: a slow sync, a slow swap."""
HEALS_WITHIN = Duration(60 * SECOND)
QUIET_FOR = Duration(2 * SECOND)


def run(seed: int, plan: Plan | None = None) -> Result:
    """Run a seed.

    Args:
        seed: Determines the run.
        plan: Replaces the one drawn from the seed.
    """
    chance = Random(seed)
    drawn = draw_plan(chance, tuple(FAULTS), tuple(RARE), tuple(APART))
    world = World(chance, plan or drawn)
    violation = ""
    try:
        with in_use(world.plan.sizes):
            live(world)
    except Unnoticeable:
        world.count("runs ended by a loss that no node could notice")
    except Exception as error:  # A replica that crashes has broken a rule like any other.
        violation = f"{type(error).__name__}: {error} at {world.now / SECOND:.3f} s"
    simulated = Duration(world.now)
    return Result(seed, world.plan, violation, world.counts, simulated, world.trace)


def live(world: World) -> None:
    """Carry out a whole run.

    Raises:
        Violation: Of a rule.
    """
    for node in world.nodes:
        node.start()
    world.after(world.chance.randrange(2 * SECOND), lambda: meet_fault(world))
    world.after(0, world.work)
    world.after(0, world.look_around)
    world.run_until(FAULTS_FOR)
    heal(world)
    become_well(world)
    be_quiet(world)


def become_well(world: World) -> None:
    """L1: without faults a shard is whole within a limit, and acknowledges further entries."""
    before, deadline = world.checks.last_acknowledged, world.now + HEALS_WITHIN
    world.run_until(world.now + LEFT_OVER_FOR)
    while not world.is_well() or world.checks.last_acknowledged <= before:
        if world.now >= deadline:
            raise Violation(f"L1: not well after healing: {world.describe()}")
        world.run_until(world.now + 500 * MS)


def be_quiet(world: World) -> None:
    """Check that without work there are beats alone, and all copies are equal."""
    world.is_quiet = True
    world.run_until(world.now + QUIET_FOR)
    before = world.counts.copy()
    world.run_until(world.now + QUIET_FOR)
    if world.counts["swaps"] > before["swaps"]:
        raise Violation(f"L1: a swap, though all is well: {world.describe()}")
    beats = 2 * (world.plan.replicas - 1) * QUIET_FOR // TIMING.beat
    messages = world.counts["messages"] - before["messages"]
    if messages > beats + 4:
        raise Violation(f"L1: {messages} messages, though {beats} would do: {world.describe()}")
    if not world.is_well():
        raise Violation(f"L1: well no longer: {world.describe()}")
    assert world.coordination.current is not None
    world.checks.see_rows(world.coordination.current)
