"""``@startup`` schedules, which are due when the cluster starts."""

from msgspec.structs import replace

from rota.core.decide.fire import set_fire_timer
from rota.core.state.draft import Draft
from rota.core.timing.schedule import is_startup
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import TakeOver


def take_over(draft: Draft, command: TakeOver) -> None:
    """Make ``@startup`` schedules due if the cluster starts; a later takeover changes nothing."""
    if not command.is_start:
        return
    for job_id, plan in draft.state.plans.items():
        schedules = draft.state.jobs[job_id].spec.schedules
        if any(is_startup(schedule) for schedule in schedules):
            next_fires = tuple(
                draft.now if is_startup(schedule) else at
                for schedule, at in zip(schedules, plan.next_fires, strict=True)
            )
            due_now = replace(plan, next_fires=next_fires)
            draft.put(Table.PLAN, job_id, due_now)
            set_fire_timer(draft, job_id, due_now)
