"""``@startup`` schedules, which are due when a single node starts."""

from msgspec.structs import replace

from rota.core.decide.fire import set_fire_timer
from rota.core.state.draft import Draft
from rota.core.timing.schedule import is_startup
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import FireAtStartup


def fire_at_startup(draft: Draft, command: FireAtStartup) -> None:
    """Make the ``@startup`` schedules of all jobs due now.

    While the wall clock is behind the shard's time, it may show the instant of an earlier start
    again. A new round of the plan then gives the execution an id of its own.
    """
    del command
    is_behind = draft.wall < draft.now
    for job_id, plan in draft.state.plans.items():
        schedules = draft.state.jobs[job_id].spec.schedules
        if any(is_startup(schedule) for schedule in schedules):
            next_fires = tuple(
                draft.wall if is_startup(schedule) else at
                for schedule, at in zip(schedules, plan.next_fires, strict=True)
            )
            due_now = replace(plan, next_fires=next_fires, round=plan.round + is_behind)
            draft.put(Table.PLAN, job_id, due_now)
            set_fire_timer(draft, job_id, due_now)
