"""Jobs that a command changes: the named jobs, those with labels, or all jobs of a namespace."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.display.printing import visible
from rota.client.cli.human import counted
from rota.client.cli.inputs.options import complete_job

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class Selection:
    """The jobs that a command line selects.

    Attributes:
        names: The names of the jobs; empty if they are not selected by name.
        labels: The labels of the jobs, each as ``KEY`` or ``KEY=VALUE``; empty if they are not
            selected by label.
        is_all: Whether all jobs of the namespace are selected.
        namespace: The namespace of names without one, and of a selection by labels or of all jobs;
            None for the default.
        is_sure: Whether to change several jobs without asking for confirmation.
        what: The plural noun for what is selected.
    """

    names: Sequence[str]
    labels: Sequence[str]
    is_all: bool
    namespace: str | None
    is_sure: bool
    what: str = "jobs"

    def __post_init__(self) -> None:
        """Check that exactly one of the ways of selection is used.

        Raises:
            click.UsageError: None is used, or several are.
        """
        if sum((bool(self.names), bool(self.labels), self.is_all)) != 1:
            raise click.UsageError(f"name {self.what}, or select them with --label or --all")

    @property
    def within(self) -> str:
        """The namespace of a selection without names."""
        return self.namespace or DEFAULT_NAMESPACE

    def named(self, client: "Client") -> list[str]:
        """Return the names of the selected jobs: as given, or with their namespace if searched."""
        if self.names:
            return list(self.names)
        labels = dict(_label(text) for text in self.labels)
        found = client.jobs(namespace=self.within, labels=labels)
        return [f"{job.namespace}/{job.name}" for job in found]

    def confirm(self, verb: str, what: str, count: int, *, is_dry: bool) -> None:
        """Ask for confirmation of a change of items that were not selected by name.

        Args:
            verb: The change, such as ``delete``.
            what: The noun for one item, such as ``job``.
            count: The number of items.
            is_dry: Whether nothing is changed anyway.

        Raises:
            click.UsageError: Standard input is no terminal, so the user cannot be asked.
            click.Abort: The answer is no.
        """
        if self.names or self.is_sure or is_dry or not count:
            return
        confirm(f"{verb} {counted(count, what, f'{what}s')} of namespace {self.within}")


def confirm(question: str) -> None:
    """Ask for confirmation.

    Args:
        question: What the command would do, beginning with a verb.

    Raises:
        click.UsageError: Standard input is no terminal, so the user cannot be asked.
        click.Abort: The answer is no.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"this would {question}; add --yes to do it, or --dry-run to see the effect"
        )
    click.confirm(visible(f"{question}?"), abort=True, err=True)


def selection_options(command: F) -> F:
    """Add the argument JOB... and ``--label``, ``--all`` and ``--yes``."""
    for option in (
        click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "is_all", is_flag=True, help="All jobs of the namespace."),
        click.option(
            "-l",
            "--label",
            "labels",
            metavar="K[=V]",
            multiple=True,
            help="All jobs of the namespace with this label; if repeated, with all of the labels.",
        ),
        click.argument("names", metavar="[JOB...]", nargs=-1, shell_complete=complete_job),
    ):
        command = option(command)
    return command


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None
