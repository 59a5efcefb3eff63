"""``rota jobs``: the commands about jobs."""

import click

from rota.client.cli.inputs.command_groups import (
    Entry,
    ListingGroup,
    namespace_before,
    output_before,
)
from rota.client.cli.inputs.options import examples

COMMANDS = {
    "list": Entry("rota.client.cli.jobs.job_views:list_jobs", "List jobs by name."),
    "show": Entry("rota.client.cli.jobs.job_views:show_job", "Show a job: schedules and tasks."),
    "create": Entry(
        "rota.client.cli.jobs.job_creation:create_job", "Create jobs from flags or files."
    ),
    "apply": Entry(
        "rota.client.cli.files.application:apply_files", "Create or replace jobs and documents."
    ),
    "diff": Entry("rota.client.cli.files.plan:diff_files", "Show the changes of `apply`."),
    "set": Entry("rota.client.cli.jobs.job_changes:set_fields", "Change fields of a job."),
    "pause": Entry("rota.client.cli.jobs.job_changes:pause_job", "Pause jobs."),
    "resume": Entry("rota.client.cli.jobs.job_changes:resume_job", "Resume paused jobs."),
    "delete": Entry("rota.client.cli.jobs.job_changes:delete_jobs", "Delete jobs."),
}


class _Jobs(ListingGroup):
    for_jobs = "`rota jobs show {job}` shows it."


@click.group(
    cls=_Jobs,
    entries=COMMANDS,
    epilog=examples(
        "rota jobs",
        "rota jobs show report",
        'rota jobs create report --schedule "0 6 * * 1-5" -- python report.py',
        "rota jobs apply -f report.yaml",
        "rota jobs set report retries=3",
        "rota jobs pause report",
        "rota jobs delete report",
    ),
)
@namespace_before
@output_before
def jobs() -> None:
    """List, show, create, change and delete jobs; without a command, list them.

    A job is named by its name, by NAMESPACE/NAME, or by its id.
    """
