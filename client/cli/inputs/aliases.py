"""Words of kubectl, docker, airflow and celery for commands of ``rota``.

A word is an alias if exactly one command does the same. If several commands do, or if the command
needs other arguments, the error names these commands.
"""

from collections.abc import Mapping

ALIASES: Mapping[str, tuple[str, ...]] = {
    "ls": ("jobs", "list"),
    "ps": ("executions", "list", "--status", "running"),
    "logs": ("output",),
    "cancel": ("executions", "cancel"),
    "status": ("cluster", "status"),
    "nodes": ("cluster", "members"),
    "create": ("jobs", "create"),
    "diff": ("jobs", "diff"),
}
"""The command, with its options, that each word stands for."""

ADVICE: Mapping[str, str] = {
    "show": "`rota jobs show JOB` shows a job, `rota executions show EXECUTION` an execution.",
    "describe": "`rota jobs show JOB` shows a job, `rota executions show EXECUTION` an execution.",
    "list": "`rota jobs` lists jobs, `rota executions` executions.",
    "pause": "`rota jobs pause JOB` pauses jobs, `rota namespace pause NAME` all of a namespace.",
    "resume": "`rota jobs resume JOB` resumes jobs, `rota namespace resume NAME` a namespace.",
    "edit": "`rota jobs set JOB FIELD=VALUE` changes a field, `rota jobs apply -f FILE` a job.",
    "update": "`rota jobs apply -f FILE` replaces jobs with new versions.",
    "top": "`rota executions list --status running --watch` shows the running executions, "
    "`rota cluster members --watch` the load of the nodes.",
}
"""The advice in the error about each word that is no command."""
