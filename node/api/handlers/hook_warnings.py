"""Warnings about the hooks of a saved job: jobs that do not exist, hosts that are not permitted."""

from urllib.parse import urlsplit

from rota.core.errors import Refused
from rota.core.model.flow import RunJob
from rota.core.model.hook import HookEvent, pointer_of
from rota.core.model.job import JobSpec
from rota.node.api.handlers.lookups import job_by_name
from rota.node.api.requests.request_context import RequestContext
from rota.node.webhooks.permitted_hosts import PermittedHosts


async def hook_warnings(request: RequestContext, spec: JobSpec) -> list[str]:
    """Return the warnings about the hooks of a saved job, and about the jobs that its tasks run."""
    hosts = PermittedHosts(request.node.config.webhook_hosts)
    return [*webhook_warnings(spec, hosts), *await _job_warnings(request, spec)]


def webhook_warnings(spec: JobSpec, hosts: PermittedHosts) -> list[str]:
    """Return a warning for each host to which this node sends no webhooks.

    Names are not looked up, because name servers may be slow: a name whose addresses are not
    permitted is refused by the delivery.
    """
    found: dict[str, str] = {}
    for hook in spec.hooks:
        fault = hosts.fault_of(urlsplit(hook.webhook).hostname or "") if hook.webhook else ""
        if fault:
            found.setdefault(fault, _field(hook.event))
    return [f"{field}: the webhook is not sent: {fault}" for fault, field in found.items()]


async def _job_warnings(request: RequestContext, spec: JobSpec) -> list[str]:
    """Return a warning for each job that a hook or a task runs and that does not exist.

    From the first job on whose shard cannot be reached, no job is looked up.
    """
    named = {
        hook.job: (_field(hook.event), "its events are dropped") for hook in spec.hooks if hook.job
    }
    for task in spec.tasks:
        if isinstance(task.wait, RunJob):
            named.setdefault(task.wait.job, (f"task {task.name}", "the task fails"))
    warnings: list[str] = []
    for full_name, (place, otherwise) in named.items():
        namespace, _, name = full_name.partition("/")
        try:
            found = await job_by_name(request, namespace, name)
        except Refused:
            break  # Each further lookup might wait as long.
        if found is None:
            detail = f"the job {full_name} does not exist; create it, or {otherwise}"
            warnings.append(f"{place}: {detail}")
    return warnings


def _field(event: HookEvent) -> str:
    return pointer_of(event).removeprefix("/")
