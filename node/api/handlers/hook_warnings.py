"""Warnings about the jobs that the hooks of a saved job trigger."""

from rota.core.errors import Refused
from rota.core.model.hook import pointer_of
from rota.core.model.job import JobSpec
from rota.node.api.handlers.lookups import job_by_name
from rota.node.api.requests.request_context import RequestContext


async def hook_warnings(request: RequestContext, spec: JobSpec) -> list[str]:
    """Return a warning for each job that a hook triggers and that does not exist.

    From the first job on whose shard cannot be reached, no job is looked up.
    """
    hooks = {hook.job: hook.event for hook in spec.hooks if hook.job}
    warnings: list[str] = []
    for full_name, event in hooks.items():
        namespace, _, name = full_name.partition("/")
        try:
            found = await job_by_name(request, namespace, name)
        except Refused:
            break  # Each further lookup might wait as long.
        if found is None:
            field = pointer_of(event).removeprefix("/")
            warnings.append(
                f"{field}: the job {full_name} does not exist; create it, or its events are dropped"
            )
    return warnings
