"""The executors that a warden hosts, by their names in tasks.

A further executor needs a row in `EXECUTORS` and the module that the row names, which is imported
when the first attempt requires it; its name is then a built-in task type. Fields of its own in a
task are added as docs/ARCHITECTURE.md, "Changes and their files", describes. Another installed
package adds an executor by an entry point of the group `ENTRY_POINTS`, whose object is a `Row`; it
is then a task type on that node. The class or function that the row names is called with

    directory   the node's data directory; each executor uses its own folders in it
    node_id     passed to the tasks
    store_id    the id of the data directory, by which leftovers are found
    ended       called with every ending, see `rota.executor.executor.Ended`
    reported    called with reports of attempts, see `rota.executor.executor.Reported`
    now         the clock for the times in endings
    environ     the environment of the warden
    settings    the node's settings for attempts

All arguments but the first are passed by keyword. The call is made on the loop of the executor and
returns an `Executor` (`rota.executor.executor`). If the import or the call raises an error, the
attempts fail with that reason.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import rota
from rota.core.model.ids import NodeId
from rota.core.timing.instants import Instant
from rota.executor.attempt_settings import AttemptSettings, settings_text
from rota.executor.executor import Ended, Executor, Reported

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """One executor.

    Attributes:
        make: ``module:name`` of its constructor, a `MakeExecutor`.
        folder: Its folder in the data directory, made with the executor; if it does not exist, the
            executor has never had an attempt there.
        needs: Other modules that must be installed.
        end_left: ``module:name`` of an `EndLeft`, which ends leftovers of a killed warden that are
            not processes of this machine; empty if the executor has no such leftovers.
        same_as: The name of the row whose executor runs these attempts, too; empty for one of its
            own.
    """

    make: str
    folder: str
    needs: tuple[str, ...] = ()
    end_left: str = ""
    same_as: str = ""


ENTRY_POINTS = "rota.executors"
"""The group of entry points by which other packages add executors; each names a `Row`."""

EXECUTORS: Mapping[str, Row] = {
    "process": Row("rota.executor.process.executor:hosted", folder="work"),
    # A process can have one subreaper only, so one executor runs the programs of all users.
    "user": Row("rota.executor.process.executor:hosted", folder="work", same_as="process"),
    "python": Row("rota.executor.python.executor:PythonExecutor", folder="python"),
    "container": Row(
        "rota.executor.container:ContainerExecutor",
        folder="containers",
        needs=("aiodocker",),
        end_left="rota.executor.container:end_containers",
    ),
}


@cache
def known_executors() -> dict[str, Row]:
    """Return the executors of rota and of other installed packages, by name.

    The modules of the rows are imported. An entry point that cannot be used is logged and left out.
    """
    rows = dict(EXECUTORS)
    for entry in entry_points(group=ENTRY_POINTS):
        facts = {"executor": entry.name, "entry_point": entry.value}
        if entry.name in rows:
            log.error("executor not added: another one has this name", extra=facts)
            continue
        try:
            row: object = entry.load()
        except Exception as error:  # The code is third-party; other executors continue.
            log.error("executor not added", extra={**facts, "reason": str(error)})
            continue
        if isinstance(row, Row):
            rows[entry.name] = row
        else:
            log.error("executor not added: it is no Row", extra=facts)
    return rows


class MakeExecutor(Protocol):
    """The constructor that a row of `EXECUTORS` names."""

    def __call__(
        self,
        directory: Path,
        *,
        node_id: NodeId,
        store_id: str,
        ended: Ended,
        reported: Reported,
        now: Callable[[], Instant],
        environ: Mapping[str, str],
        settings: AttemptSettings,
    ) -> Executor:
        """Return an executor; called once, on the loop."""
        ...


class EndLeft(Protocol):
    """A function that ends the leftovers of a killed warden; it is called in the guard, and blocks.

    It raises the error that prevents the end.
    """

    def __call__(self, store_id: str) -> object:
        """End all leftovers of the data directory *store_id*."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnvironment:
    """The arguments of every executor; see the documentation of the module."""

    directory: Path
    node_id: NodeId
    store_id: str
    now: Callable[[], Instant]
    environ: Mapping[str, str]
    settings: AttemptSettings


class NotHosted(Exception):
    """An executor cannot be made here; the message is the reason."""


class HostedExecutors:
    """Executors, each made at its first use.

    Args:
        environment: The arguments of the executors.
        ended: Called with every ending.
        reported: Called with reports of attempts.
        table: The known executors; None for all.

    Attributes:
        made: The executors that have been made, by name.
    """

    def __init__(
        self,
        environment: HostEnvironment,
        *,
        ended: Ended,
        reported: Reported,
        table: Mapping[str, Row] | None = None,
    ) -> None:
        self._environment = environment
        self._ended = ended
        self._reported = reported
        self._table = known_executors() if table is None else table
        self.made: dict[str, Executor] = {}

    def get(self, name: str) -> Executor:
        """Return an executor.

        Raises:
            NotHosted: The executor cannot be made.
        """
        row = self._table.get(name)
        if row is not None and row.same_as:
            name = row.same_as
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def find(self, name: str) -> Executor | None:
        """Return an executor that has been used in this data directory; None if it has not."""
        row = self._table.get(name)
        if row is None or not (self._environment.directory / row.folder).exists():
            return None
        try:
            return self.get(name)
        except NotHosted as error:
            log.warning("executor not made", extra={"executor": name, "reason": str(error)})
            return None

    def _make(self, name: str) -> Executor:
        environment = self._environment
        try:
            # The contract suite runs every row, which verifies this type.
            make = cast("MakeExecutor", _named(self._table[name].make))
            return make(
                environment.directory,
                node_id=environment.node_id,
                store_id=environment.store_id,
                ended=self._ended,
                reported=self._reported,
                now=environment.now,
                environ=environment.environ,
                settings=environment.settings,
            )
        except KeyError as error:
            raise NotHosted(f"there is no executor {name!r} here") from error
        except Exception as error:  # The code may be third-party; other executors continue.
            raise NotHosted(f"the executor {name!r} cannot be used here: {error}") from error


def installed() -> tuple[str, ...]:
    """Return the names of the executors that can be used, without importing them."""
    return tuple(
        name
        for name, row in known_executors().items()
        if all(_is_there(module) for module in (row.make.partition(":")[0], *row.needs))
    )


def end_left(directory: Path, store_id: str) -> None:
    """End the leftovers of a killed warden's executors that are not processes of this machine."""
    for name, row in known_executors().items():
        if row.end_left and (directory / row.folder).exists():
            try:
                cast("EndLeft", _named(row.end_left))(store_id)
            except Exception as error:  # The next warden finds the leftovers and tries again.
                log.error("not all ended", extra={"executor": name, "reason": str(error)})


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # Not even its package exists.
        return False


def _named(path: str) -> object:
    module, _, name = path.partition(":")
    found: object = getattr(import_module(module), name)
    return found


_KEPT = frozenset(
    {
        *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
        *("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSH_AUTH_SOCK"),
    }
)
_KEPT_PREFIXES = ("PYTHON", "LD_")
"""Variables of the interpreter and of the dynamic loader."""


def environment_of_warden(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the node's *environ* that a warden gets: those that its code reads.

    Other variables may be secrets of the node, and tasks can more easily access the warden than the
    node.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def digest_of(node_id: NodeId, environ: Mapping[str, str], settings: AttemptSettings) -> str:
    """Return a digest of a warden's program, environment, settings and node.

    A warden with another digest is used while it has attempts, and replaced after the last one.
    Otherwise an upgrade, or another ``PATH``, would take effect only if no attempt ran during a
    restart of the node.
    """
    rows = sorted(known_executors().items())
    program = (rota.__version__, sys.executable, node_id, settings_text(settings), rows)
    parts = [*program, *sorted(environ.items())]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
