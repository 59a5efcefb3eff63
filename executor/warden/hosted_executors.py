"""The executors that a warden hosts, by the names that tasks call them.

One more executor is one more row of `EXECUTORS` and the module that it names, which is imported
when the first attempt needs it. Whoever is named there is made with

    directory   the node's data directory; each executor keeps to folders of its own in it
    node_id     told to the tasks
    store_id    the mark of the data directory, by which leftovers are found
    ended       called with every ending, see `rota.executor.executor.Ended`
    reported    called with what attempts tell, see `rota.executor.executor.Reported`
    now         the clock of the stamps
    environ     the environment that the warden was started with
    terms       what the node's settings say of attempts

all by name but the first, on the loop that it is to use, and is an `Executor` from then on
(`rota.executor.executor`). What it raises, or the import, becomes the reason why its attempts fail.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
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
        make: Module, and what in it makes one: a `MakeExecutor`.
        needs: What else has to be installed.
        end_left: Module, and what in it ends all that a killed warden has left and that is no
            process of this machine: an `EndLeft`; empty where there is nothing of the kind.
        folder: In the data directory, made when the executor is; without it there is nothing of
            its attempts.
    """

    make: str
    folder: str
    needs: tuple[str, ...] = ()
    end_left: str = ""


EXECUTORS: Mapping[str, Row] = {
    "process": Row("rota.executor.process.executor:hosted", folder="work"),
    "python": Row("rota.executor.python.executor:PythonExecutor", folder="python"),
    "container": Row(
        "rota.executor.container:ContainerExecutor",
        folder="containers",
        needs=("aiodocker",),
        end_left="rota.executor.container:end_containers",
    ),
}


class MakeExecutor(Protocol):
    """What a row of `EXECUTORS` names."""

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
        terms: AttemptSettings,
    ) -> Executor:
        """Return an executor; called once, on the loop."""
        ...


class EndLeft(Protocol):
    """Ends what a killed warden has left; blocks, in the guard."""

    def __call__(self, store_id: str) -> object:
        """End everything with this mark; raises what prevents it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnvironment:
    """What an executor is put into; see the module."""

    directory: Path
    node_id: NodeId
    store_id: str
    now: Callable[[], Instant]
    environ: Mapping[str, str]
    terms: AttemptSettings


class NotHosted(Exception):
    """There is no such executor here; the message says why."""


class HostedExecutors:
    """Executors, each made when it is first asked for.

    Args:
        environment: What they are put into.
        ended: Called with every ending.
        reported: Called with reports of attempts.
        table: Like `EXECUTORS`.
    """

    def __init__(
        self,
        environment: HostEnvironment,
        *,
        ended: Ended,
        reported: Reported,
        table: Mapping[str, Row] = EXECUTORS,
    ) -> None:
        self._environment = environment
        self._ended = ended
        self._reported = reported
        self._table = table
        self.made: dict[str, Executor] = {}

    def get(self, name: str) -> Executor:
        """Return an executor.

        Raises:
            NotHosted: It cannot be made.
        """
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def find(self, name: str) -> Executor | None:
        """Return an executor that has been used in this data directory, or None."""
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
            # The contract suite runs every row, which is what makes this true.
            make = cast("MakeExecutor", _named(self._table[name].make))
            return make(
                environment.directory,
                node_id=environment.node_id,
                store_id=environment.store_id,
                ended=self._ended,
                reported=self._reported,
                now=environment.now,
                environ=environment.environ,
                terms=environment.terms,
            )
        except KeyError as error:
            raise NotHosted(f"there is no executor {name!r} here") from error
        except Exception as error:  # Of code that may come from elsewhere: others go on.
            raise NotHosted(f"the executor {name!r} cannot be used here: {error}") from error


def installed(table: Mapping[str, Row] = EXECUTORS) -> tuple[str, ...]:
    """Return the names of those that can be used, without importing them."""
    return tuple(
        name
        for name, row in table.items()
        if all(_is_there(module) for module in (row.make.partition(":")[0], *row.needs))
    )


def end_left(directory: Path, store_id: str, table: Mapping[str, Row] = EXECUTORS) -> None:
    """End what the executors of a killed warden have left outside of this machine's processes."""
    for name, row in table.items():
        if row.end_left and (directory / row.folder).exists():
            try:
                cast("EndLeft", _named(row.end_left))(store_id)
            except Exception as error:  # The next warden finds it too, and tries again.
                log.error("not all ended", extra={"executor": name, "reason": str(error)})


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # Not even the package that it would be in.
        return False


def _named(place: str) -> object:
    module, _, name = place.partition(":")
    found: object = getattr(import_module(module), name)
    return found


_KEPT = frozenset(
    {
        *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
        *("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSH_AUTH_SOCK"),
    }
)
_KEPT_PREFIXES = ("PYTHON", "LD_")
"""Of the interpreter and of the dynamic loader."""


def environment_of_warden(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of the node's *environ* a warden gets: what it and its executors look up.

    Everything else may be a secret of the node, and the warden is closer to the tasks.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def digest_of(node_id: NodeId, environ: Mapping[str, str], terms: AttemptSettings) -> str:
    """Return a digest of what a warden is made of: program, environment, settings, its node.

    One that was made otherwise serves as long as it has attempts, and is replaced after that: else
    an upgrade, or another ``PATH``, would only take effect when no attempt happened to run.
    """
    program = (rota.__version__, sys.executable, node_id, settings_text(terms))
    made_of = [*program, *sorted(environ.items())]
    return hashlib.blake2b(json.dumps(made_of).encode(), digest_size=8).hexdigest()
