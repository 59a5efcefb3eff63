"""Demonstration jobs of `rota dev --demo`: a heartbeat, a DAG, and a task that is retried."""

from collections.abc import Mapping
from typing import Any

from rota.client.client import Client

# Any: the values are bodies in JSON.
DEMO_JOBS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "demo-heartbeat",
        "description": "Prints the time every five seconds.",
        "schedule": "@every 5s",
        "command": 'date "+alive at %H:%M:%S"',
        "overlap": "skip",
    },
    {
        "name": "demo-report",
        "description": "Gathers two figures at the same time, and publishes them together.",
        "schedule": "@every 30s",
        "tasks": [
            {"name": "fetch", "command": "sleep 0.4; echo fetched"},
            {"name": "sales", "needs": ["fetch"], "command": 'sleep 0.8; echo "sales 1204"'},
            {"name": "stock", "needs": ["fetch"], "command": 'sleep 0.5; echo "stock 380"'},
            {"name": "publish", "needs": ["sales", "stock"], "command": "echo published"},
        ],
    },
    {
        "name": "demo-flaky",
        "description": "Succeeds at the third attempt.",
        "schedule": "@every 1m",
        "command": 'test "$ROTA_ATTEMPT" -ge 3 || { echo "no answer yet"; exit 1; }; echo answered',
        "retries": {"limit": 4, "backoff": "exponential", "delay": "500ms", "factor": 2},
    },
)


def save_demo_jobs(url: str, token: str | None = None) -> None:
    """Create the demonstration jobs, or replace those of an earlier start.

    Args:
        url: The URL of a node that accepts requests; several URLs separated by commas.
        token: The token of the nodes; None for none.

    Raises:
        RotaError: The node refuses a job, or does not answer.
    """
    with Client(url, token=token) as client:
        for job in DEMO_JOBS:
            client.put_job(job)
