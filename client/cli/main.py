"""The ``rota`` program: its commands and its exit statuses.

0  done                       5  conflict with existing data
1  an execution failed        6  no node answered, or none was available
2  wrong usage                7  the wait timed out; the execution continues
3  not found                  8  there are differences
4  not allowed                9  the input is invalid
10  not authenticated
74  its output could not    130  interrupted
    be written              141  the reader of its output has closed

No large module is loaded before a command runs, so that help is instant.
"""

import io
import os
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import click

import rota
from rota.client.cli.display.printing import say
from rota.client.cli.inputs.command_groups import Entry, LazyGroup, namespace_before, output_before
from rota.client.cli.inputs.options import FORM, examples, url_option
from rota.client.cli.setup.completion import VARIABLE
from rota.client.extras import named_extras
from rota.core.errors import RotaError

EX_USAGE = 2
JSON_FORMS = ("json", "jsonl")
EX_IO = 74
EX_INTERRUPTED = 130
EX_UNREAD = 141
"""The exit status that a shell reports for a program ended by SIGPIPE, which Python ignores."""

COMMANDS = {
    "dev": Entry("rota.client.cli.setup.dev:dev", "Run a temporary node."),
    "jobs": Entry("rota.client.cli.jobs.jobs:jobs", "List, show, create, change and delete jobs."),
    "deploy": Entry("rota.client.cli.jobs.deploy:deploy", "Save the scheduled jobs of an app."),
    "run": Entry("rota.client.cli.jobs.run:run", "Run a command once, now."),
    "trigger": Entry("rota.client.cli.jobs.trigger:trigger", "Run a job now."),
    "rerun": Entry("rota.client.cli.jobs.rerun:rerun", "Run a finished execution again."),
    "backfill": Entry(
        "rota.client.cli.jobs.backfills:backfill", "Run a job for fire times of the past."
    ),
    "approve": Entry("rota.client.cli.jobs.answers:approve", "Approve what a task waits for."),
    "reject": Entry("rota.client.cli.jobs.answers:reject", "Reject what a task waits for."),
    "send": Entry("rota.client.cli.jobs.answers:send", "Post an event to an execution."),
    "emit": Entry("rota.client.cli.jobs.answers:emit", "Send an event that starts jobs."),
    "state": Entry(
        "rota.client.cli.jobs.state:state", "Show and change values that executions share."
    ),
    "executions": Entry(
        "rota.client.cli.jobs.executions:executions", "List, show, cancel and wait for executions."
    ),
    "top": Entry("rota.client.cli.jobs.top:top", "Show the tasks that run now, live."),
    "output": Entry("rota.client.cli.jobs.output:output", "Print the output of tasks."),
    "dag": Entry("rota.client.cli.jobs.dag:dag", "Show tasks as a graph."),
    "hooks": Entry("rota.client.cli.jobs.hooks:hooks", "Test the webhooks of jobs."),
    "next": Entry(
        "rota.client.cli.files.next_fires:next_fires",
        "Show the next fire times of a job or a schedule.",
    ),
    "ledger": Entry(
        "rota.client.cli.jobs.ledger:ledger", "Show the outcome of each fire time of a job."
    ),
    "audit": Entry(
        "rota.client.cli.audit.audit:audit", "Compare the ledger with computed fire times."
    ),
    "explain": Entry(
        "rota.client.cli.audit.explain:explain", "Show why a job ran or did not run at a time."
    ),
    "changes": Entry(
        "rota.client.cli.changes.changes:changes", "Show who changed what, and check the record."
    ),
    "events": Entry("rota.client.cli.jobs.events:events", "Show live events."),
    "validate": Entry(
        "rota.client.cli.files.validation:validate", "Check files of jobs and documents."
    ),
    "plan": Entry("rota.client.cli.files.plan:plan", "Show what `apply` would change."),
    "rehearse": Entry(
        "rota.client.cli.files.rehearse:rehearse_files", "Run files of jobs on virtual time."
    ),
    "export": Entry("rota.client.cli.files.export:export", "Print jobs, or write them to files."),
    "history": Entry("rota.client.cli.jobs.history:history", "List the versions of a job."),
    "rollback": Entry(
        "rota.client.cli.jobs.history:rollback", "Return to an earlier version of a job."
    ),
    "get": Entry(
        "rota.client.cli.documents.documents:get_documents", "Show job types and other documents."
    ),
    "apply": Entry(
        "rota.client.cli.files.application:apply_files", "Create or replace jobs and documents."
    ),
    "delete": Entry("rota.client.cli.documents.documents:delete_documents", "Delete documents."),
    "import": Entry(
        "rota.client.cli.jobs.imports:import_jobs", "Convert jobs of another scheduler."
    ),
    "calendars": Entry(
        "rota.client.cli.files.calendars:calendars", "Import holidays and iCalendar files."
    ),
    "namespace": Entry(
        "rota.client.cli.namespaces.namespaces:namespace",
        "Show, change, pause and resume namespaces.",
    ),
    "login": Entry("rota.client.cli.access.login:login", "Store a token in a profile."),
    "logout": Entry("rota.client.cli.access.login:logout", "Remove the token from a profile."),
    "auth": Entry(
        "rota.client.cli.access.auth:auth", "Create the first key; show the caller and its token."
    ),
    "key": Entry("rota.client.cli.access.keys:key", "Create, list, rotate and revoke keys."),
    "grant": Entry("rota.client.cli.access.grants:grant", "Give a role in namespaces."),
    "ungrant": Entry("rota.client.cli.access.grants:ungrant", "Take a role away."),
    "secret": Entry(
        "rota.client.cli.secrets.secrets:secret", "Set, list and delete secrets of namespaces."
    ),
    "keyring": Entry(
        "rota.client.cli.secrets.key_rings:keyring", "Make and change the keys of secrets."
    ),
    "config": Entry(
        "rota.client.cli.setup.config:config", "Store URL, namespace and more in profiles."
    ),
    "completion": Entry(
        "rota.client.cli.setup.completion:completion",
        "Print a completion script for a shell.",
    ),
    "cluster": Entry(
        "rota.client.cli.cluster.cluster:cluster",
        "Show nodes, shards, and moves; recover etcd's state.",
    ),
    "node": Entry("rota.client.cli.cluster.node:node", "Drain, undrain or forget a node."),
    "shard": Entry("rota.client.cli.cluster.shard:shard", "Repair, recover or export a shard."),
    "ring": Entry(
        "rota.client.cli.cluster.ring:ring",
        "Show the placement of shards, and the moves of a change.",
    ),
    "doctor": Entry(
        "rota.client.cli.doctor.doctor:doctor", "Check this machine, the node and its cluster."
    ),
    "certs": Entry("rota.client.cli.certs.certs:certs", "Make certificates of nodes and clients."),
    "bench": Entry("rota.client.cli.setup.bench:bench", "Measure a running cluster."),
    "mcp": Entry("rota.client.cli.mcp.mcp:mcp", "Offer tools to agents, over MCP."),
    "version": Entry("rota.client.cli.setup.version:version", "Show versions of client and node."),
}


SECTIONS = {
    "Work": {
        "jobs, history, rollback, hooks": "Change jobs; return to a version.",
        "run, trigger, rerun, backfill": "Run work now, again, or for past times.",
        "executions, approve, reject": "Cancel, await executions; answer a task.",
        "send, emit, state, rehearse": "Post events; keep values; try files.",
        "validate, plan, apply, export": "Check, apply, write files of jobs.",
    },
    "Look": {
        "dag, output, events, changes": "Show graphs, output, and changes.",
        "next, ledger, audit, explain": "Show, check and explain fire times.",
    },
    "Access": {
        "login, logout, auth, key": "Store a token; create keys; show the caller.",
        "grant, ungrant, namespace": "Give and take roles; manage namespaces.",
        "get, delete, secret, keyring": "Shared documents; secrets and their keys.",
    },
    "Operate": {
        "dev, deploy, import, certs": "Run a node; convert jobs; certificates.",
        "config, completion, calendars": "Store settings; import holidays.",
        "doctor, cluster, node, shard": "Check; drain nodes; repair shards.",
        "top, ring, bench, version, mcp": "Watch, plan, measure; serve agents.",
    },
}
"""The parts of the help text."""


# Words of kubectl, docker, airflow and celery. A word is an alias if exactly one command does the
# same. If several commands do, or if the command needs other arguments, the error names them.
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
}
"""The advice in the error about each word that is no command."""


@contextmanager
def printed_warnings() -> Generator[None]:
    """Print each warning for users once."""
    printed: set[str] = set()

    def show(message: Warning | str, *place: object, **more: object) -> None:
        del place, more
        if str(message) not in printed:
            printed.add(str(message))
            say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


class Program(LazyGroup):
    """The program: a group that handles the errors of its commands.

    An error about a job that does not exist gets a note with similar names. With ``-o json`` or
    ``-o jsonl`` errors are printed as JSON.
    """

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, and return its exit status.

        Raises:
            RotaError: The command failed, and its errors are not printed as JSON.
            click.ClickException: The arguments are wrong, and errors are not printed as JSON.
        """
        try:
            with printed_warnings(), named_extras():
                return super().invoke(ctx)
        except RotaError as error:
            if error.code.endswith("_not_found"):
                from rota.client.cli.failures import add_near_names

                add_near_names(error)
            if ctx.meta.get(FORM) not in JSON_FORMS:
                raise
            from rota.client.cli.failures import report_as_json

            return report_as_json(error)
        except click.ClickException as error:
            if ctx.meta.get(FORM) not in JSON_FORMS:
                raise
            from rota.client.cli.failures import report_usage_as_json

            report_usage_as_json(error)
            return EX_USAGE


@click.group(
    cls=Program,
    entries=COMMANDS,
    aliases=ALIASES,
    advice=ADVICE,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        'rota jobs create hello --schedule "*/5 * * * *" -- echo hello',
    ),
)
@namespace_before
@output_before
@url_option
@click.version_option(rota.__version__, prog_name="rota")
def cli() -> None:
    """Schedule jobs, and show their executions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with *argv*, or the program's own arguments; return the exit status."""
    if sys.stdout is None:
        # Standard output is closed; a socket must not get its file descriptor.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    if VARIABLE in os.environ:
        return _complete()
    try:
        status = cli.main(
            args=None if argv is None else list(argv), prog_name="rota", standalone_mode=False
        )
        # Flushed here, because at exit Python reports a failure with a traceback.
        sys.stdout.flush()
    except (SystemExit, BrokenPipeError):
        # click catches the first broken pipe and exits with 1, which has another meaning here.
        _drop_output()
        return EX_UNREAD
    except OSError as error:
        _drop_output()
        say(f"error: {error}")
        return EX_IO
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        say(message.getvalue(), end="")
        return EX_USAGE
    except click.Abort:
        say("interrupted")
        return EX_INTERRUPTED
    except Exception as error:
        from rota.client.cli.failures import report

        return report(error)
    return status if isinstance(status, int) else 0


def _drop_output() -> None:
    """Discard the remaining output, so that it does not fail again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complete() -> int:
    """Print completions for a shell, without errors and warnings: they would disturb the input."""
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        cli.main(prog_name="rota", complete_var=VARIABLE, standalone_mode=False)
    return 0
