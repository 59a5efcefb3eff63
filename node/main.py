"""The ``rotad`` program: settings in, a node until it is told to stop, an exit status out.

0   stopped as asked            70  a bug in rota
64  wrong settings              74  the data directory or its disk failed
69  the address is taken        75  the data directory is in use by another process
"""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop

import rota
from rota.core.errors import Refused, RotaError
from rota.node.cluster import WrongCluster
from rota.node.config import NodeConfig, load_config
from rota.node.coordination.coordinator import CoordinatorRefused
from rota.node.logs import begin_logging
from rota.node.node import Node
from rota.node.own_address import NoOwnAddress
from rota.node.supervisor import Supervisor
from rota.storage.store import StoreLocked

log = logging.getLogger("rota.node")

EX_USAGE = 64
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_IOERR = 74
EX_TEMPFAIL = 75


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=click.Path(path_type=Path), help="Settings in TOML.")
@click.option("--data-dir", help="Where everything durable is.  [default: rota-data]")
@click.option(
    "--listen", metavar="HOST:PORT", help="Where the API listens.  [default: 127.0.0.1:7400]"
)
@click.option(
    "--peer-listen",
    metavar="HOST:PORT",
    help="Where other nodes connect.  [default: 127.0.0.1:7401]",
)
@click.option(
    "--advertise", metavar="HOST:PORT", help="Where others reach the API.  [default: --listen]"
)
@click.option(
    "--peer-advertise",
    metavar="HOST:PORT",
    help="Where other nodes reach this one.  [default: --peer-listen]",
)
@click.option("--etcd", metavar="URL,URL", help="Endpoints of etcd; without, a node alone.")
@click.option("--etcd-user", help="User of etcd that this node is.  [default: no authentication]")
@click.option("--etcd-password-file", metavar="FILE", help="Its password, on the first line.")
@click.option("--etcd-ca", metavar="FILE", help="Authority that signed etcd's certificates.")
@click.option("--etcd-cert", metavar="FILE", help="Certificate of this node, if etcd wants one.")
@click.option("--etcd-key", metavar="FILE", help="Key of that certificate.")
@click.option("--cluster", help="Name of the cluster.  [default: default]")
@click.option("--node-id", help="Permanent name of this node.  [default: the host's name]")
@click.option("--zone", help="Failure domain of this node.")
@click.option("--weight", help="How much it is to hold, beside other nodes.  [default: 1]")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="For placement; repeatable.")
@click.option("--shards", help="Shards of a new cluster, a power of two.  [default: 256]")
@click.option("--replicas", help="Copies of each shard.  [default: 3]")
@click.option("--min-sync", help="Copies that a write has to be on.  [default: 2]")
@click.option("--session-ttl", help="Silence after which a node is gone.  [default: 5s]")
@click.option("--peer-lease", help="How long backups wait for a primary.  [default: 2s]")
@click.option("--attempt-lease", help="How long attempts go on without it.  [default: 15s]")
@click.option(
    "--clock-skew-max", help="Fire nothing if most calendars differ by more.  [default: 500ms]"
)
@click.option("--repair-delay", help="How long a lost node is waited for.  [default: 5m]")
@click.option(
    "--stand-in-after", help="When a node that is cut off fires available jobs.  [default: 10s]"
)
@click.option("--decide-ahead", help="Decide fires so long before.  [default: 25ms]")
@click.option("--slots", help="Attempts that may run at the same time.  [default: 64]")
@click.option("--executions-max", help="Unfinished executions of one shard.  [default: 10000]")
@click.option("--body-max-mb", help="Largest request body, in MiB.  [default: 4]")
@click.option("--sandbox-tmp-mb", help="Size of /tmp in a sandbox, in MiB.  [default: 256]")
@click.option(
    "--container-memory-mb", help="Of a container without a limit; 0: none.  [default: 2048]"
)
@click.option("--container-pids", help="Of a container without a limit; 0: none.  [default: 1024]")
@click.option("--history", help="How long what is over is kept.  [default: 7d]")
@click.option("--drain", help="How long a stop waits for running attempts.  [default: 5s]")
@click.option("--on-stop", help="What then still runs: keep or end.  [default: keep]")
@click.option("--disk-reserve-mb", help="Disk space that has to stay free.  [default: 256]")
@click.option("--connections-max", help="Connections to the API.  [default: 8192]")
@click.option("--connections-per-address-max", help="Likewise of one address.  [default: 4096]")
@click.option(
    "--allowed-hosts", metavar="NAME,NAME", help="Names under which the API may be reached."
)
@click.option(
    "--allowed-origins", metavar="URL,URL", help="Origins whose pages may change something."
)
@click.option(
    "--await-recovery", is_flag=True, help="Start though etcd lost the cluster; see the manual."
)
@click.option("--insecure", is_flag=True, help="Listen beyond loopback without authentication.")
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
@click.option("--access-log", help="Answers to log: off, errors or all.  [default: errors]")
@click.version_option(rota.__version__, prog_name="rotad")
@click.pass_obj
def command(umask: int, /, config: Path | None, **flags: object) -> int:
    """Run a rota node.

    Every setting may also stand in the file that --config names (data_dir = "...") and in the
    environment (ROTA_DATA_DIR=...); a flag wins over the environment, that over the file.
    """
    given = {name: value for name, value in flags.items() if value not in (None, (), False)}
    file = config or (Path(named) if (named := os.environ.get("ROTA_CONFIG")) else None)
    try:
        settings = load_config(file, os.environ, given)
    except Refused as refusal:
        click.echo(f"rotad: {refusal.detail}", err=True)
        return EX_USAGE
    return run(settings, umask)


def run(config: NodeConfig, umask: int) -> int:
    """Run a node until SIGTERM or SIGINT; return the program's exit status.

    Args:
        config: Its settings.
        umask: Of its tasks.
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
    """Take all the open files that we may have: an attempt needs two, a connection one."""
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
        umask: Of the tasks.
    """
    try:
        return int(command.main(argv, prog_name="rotad", standalone_mode=False, obj=umask) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return EX_USAGE
    except click.Abort:
        return EX_USAGE
