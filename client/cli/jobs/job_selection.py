"""Jobs that a command changes: named ones, those with labels, or all of a namespace."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.display.printing import visible
from rota.client.cli.human import counted
from rota.client.cli.inputs.options import complete_job

if TYPE_CHECKING:  # No cycle is dodged: help texts do not load an HTTP library.
    from rota.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])  # Any: options fit whatever command

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class Selection:
    """The jobs that a command line selects.

    Attributes:
        names: Named jobs.
        labels: Labels of further jobs, each as ``KEY`` or ``KEY=VALUE``.
        is_all: Whether all jobs of the namespace are selected.
        namespace: The namespace of names without one, of labels and of all.
        is_sure: Whether to change many jobs without a question.
        what: A word for what is selected.
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
            click.UsageError: It is not.
        """
        if sum((bool(self.names), bool(self.labels), self.is_all)) != 1:
            raise click.UsageError(f"name {self.what}, or select them with --label or --all")

    @property
    def within(self) -> str:
        """The namespace of a selection without names."""
        return self.namespace or DEFAULT_NAMESPACE

    def named(self, client: "Client") -> list[str]:
        """Return the selected jobs, each by a name that needs no namespace unless it was given."""
        if self.names:
            return list(self.names)
        labels = dict(_label(text) for text in self.labels)
        found = client.jobs(namespace=self.within, labels=labels)
        return [f"{job.namespace}/{job.name}" for job in found]

    def confirm(self, verb: str, what: str, count: int, *, is_dry: bool) -> None:
        """Ask whether to change *count* things that were not named.

        Args:
            verb: The change, such as ``delete``.
            what: A word for one of them, such as ``job``.
            count: Their number.
            is_dry: Whether nothing is changed anyway.

        Raises:
            click.UsageError: There is no terminal to ask.
            click.Abort: The answer is no.
        """
        if self.names or self.is_sure or is_dry or not count:
            return
        question = f"{verb} {counted(count, what, f'{what}s')} of namespace {self.within}"
        if not sys.stdin.isatty():
            raise click.UsageError(f"would {question}; add --yes, or see them with --dry-run")
        click.confirm(visible(f"{question}?"), abort=True, err=True)


def selection_options(command: F) -> F:
    """Add the argument JOB... and ``--label``, ``--all`` and ``--yes``."""
    for option in (
        click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "is_all", is_flag=True, help="All jobs of the namespace."),
        click.option(
            "--label",
            "labels",
            metavar="K[=V]",
            multiple=True,
            help="All jobs of the namespace with this label; repeatable: with all of them.",
        ),
        click.argument("names", metavar="[JOB...]", nargs=-1, shell_complete=complete_job),
    ):
        command = option(command)
    return command


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None
