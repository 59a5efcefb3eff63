"""Command line of ``rotad``, which runs a node until SIGTERM or SIGINT.

The exit status is

0   stopped by a signal         70  a bug in rota
64  invalid settings            74  the data directory or its disk failed
69  the address is in use       75  the data directory is in use by another process

``rotad auth-reset`` creates a key of an administrator and ends; 69 is an etcd without an answer.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop

import rota
from rota.core.errors import Refused, RotaError
from rota.node.cluster.joining import WrongCluster
from rota.node.coordination.coordinator_errors import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
)
from rota.node.runtime.auth_reset import reset_access
from rota.node.runtime.node import Node
from rota.node.system.advertised_address import NoOwnAddress
from rota.node.system.clock import SystemClock
from rota.node.system.config import SETTINGS, NodeConfig, Setting, load_config
from rota.node.system.entropy import SystemEntropy
from rota.node.system.logs import begin_logging
from rota.node.system.systemd import Supervisor
from rota.storage.store import StoreLocked

log = logging.getLogger("rota.node")

EX_USAGE = 64
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_IOERR = 74
EX_TEMPFAIL = 75

AUTH_RESET = "auth-reset"
"""The first argument of the other command of the program."""


def _option(setting: Setting) -> click.Option:
    values, default = setting.values, setting.default or setting.unset
    text = setting.meaning
    if values.metavar and default:
        text += f"  [default: {default}]"
    return click.Option(
        [setting.flag, setting.name],
        is_flag=not values.metavar or None,  # False would make the value optional.
        multiple=values.may_be_repeated,
        metavar=values.metavar or None,
        help=text.replace("`", ""),
    )


CONFIG = click.Option(
    ["--config"], metavar="FILE", type=click.Path(path_type=Path), help="Settings in TOML."
)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[CONFIG, *map(_option, SETTINGS.values())],
)
@click.version_option(rota.__version__, prog_name="rotad")
@click.pass_obj
def command(umask: int, /, config: Path | None, **flags: object) -> int:
    """Run a rota node.

    Every setting may also be in the file that --config names (data_dir = "...") and in the
    environment (ROTA_DATA_DIR=...). A flag overrides the environment, which overrides the file.

    `rotad auth-reset` with the same options creates a key of an administrator when none is left.
    """
    settings = _settings(config, flags)
    return EX_USAGE if settings is None else run(settings, umask)


@click.command(
    AUTH_RESET,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[CONFIG, *map(_option, SETTINGS.values())],
)
def auth_reset(*, config: Path | None, **flags: object) -> int:
    """Create a key with the role cluster-admin, when no key of an administrator is left.

    Run this command on the machine of a node, as the user of the node or root, with the settings of
    the node: it writes to etcd itself. A node without etcd has to be stopped first. The token is
    printed on the standard output, and only now.
    """
    settings = _settings(config, flags)
    return EX_USAGE if settings is None else reset(settings)


def _settings(config: Path | None, flags: dict[str, object]) -> NodeConfig | None:
    """Return the settings; None if they are invalid, which is printed."""
    given = {name: value for name, value in flags.items() if value not in (None, (), False)}
    file = config or (Path(named) if (named := os.environ.get("ROTA_CONFIG")) else None)
    try:
        return load_config(file, os.environ, given)
    except Refused as refusal:
        click.echo(f"rotad: {refusal.detail}", err=True)
        return None


def reset(config: NodeConfig) -> int:
    """Create a key of an administrator, and print its token; return the exit status."""
    try:
        made = uvloop.run(reset_access(config, SystemClock(), SystemEntropy()))
    except RotaError as error:
        click.echo(f"rotad {AUTH_RESET}: no new key: {error}", err=True)
        return _status_of(error)
    click.echo(made.token.text)
    click.echo(
        f"created the key {made.name} with the role cluster-admin. Create the keys of the "
        f"administrators with it, and end it with one of those: `rota key revoke {made.name}` and "
        f"`rota ungrant {made.name} cluster-admin`",
        err=True,
    )
    return 0


def _status_of(error: RotaError) -> int:
    match error:
        case StoreLocked():
            return EX_TEMPFAIL
        case WrongCluster() | CoordinatorRefused():
            return EX_USAGE
        case CoordinatorUnavailable() | OutcomeUnknown():
            return EX_UNAVAILABLE
        case _:
            return EX_IOERR


def run(config: NodeConfig, umask: int) -> int:
    """Run a node until SIGTERM or SIGINT; return the program's exit status.

    Args:
        config: The settings.
        umask: The umask of tasks.
    """
    begin_logging(config.log_level)
    _allow_open_files()
    try:
        uvloop.run(_serve(config, umask))
    except (WrongCluster, NoOwnAddress, CoordinatorRefused) as error:
        return _give_up(error, EX_USAGE)
    except StoreLocked as error:
        return _give_up(error, EX_TEMPFAIL)
    except RotaError as error:
        return _give_up(error, EX_IOERR)
    except OSError as error:
        return _give_up(error, EX_UNAVAILABLE)
    except Exception:
        log.exception("node crashed")
        return EX_SOFTWARE
    return 0


def _allow_open_files() -> None:
    """Raise the limit of open files to its maximum; an attempt needs two, a connection one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(config: NodeConfig, umask: int) -> None:
    node = Node(config, supervisor=Supervisor.taken_from(os.environ), task_umask=umask)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop)
    await node.run()


def _give_up(error: Exception, status: int) -> int:
    log.error("node cannot run", extra={"reason": str(error)})
    return status


def main(argv: Sequence[str] | None = None, *, umask: int = 0o022) -> int:
    """Run ``rotad`` with *argv*, or with the program's own arguments.

    Args:
        argv: The arguments.
        umask: The umask of tasks.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    chosen: click.Command = command
    name = "rotad"
    if given[:1] == [AUTH_RESET]:
        chosen, name, given = auth_reset, f"{name} {AUTH_RESET}", given[1:]
    try:
        return int(chosen.main(given, prog_name=name, standalone_mode=False, obj=umask) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return EX_USAGE
    except click.Abort:
        return EX_USAGE
