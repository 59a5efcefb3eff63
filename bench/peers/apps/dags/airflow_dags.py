# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
"""Airflow's two DAGs: one task, and ten in a row; each marks its number of those asked for."""

from airflow.sdk import chain, dag, task
from bench.peers.apps.marks import mark


@task
def mark_nth(place, **context):
    """Mark the number at *place* of what this run was asked for with."""
    asked = context["dag_run"].conf
    mark(asked["path"], asked["numbers"][place])


@dag(schedule=None)
def one():
    """One task."""
    mark_nth(0)


@dag(schedule=None)
def ten():
    """Ten tasks, each after the one before."""
    chain(*(mark_nth.override(task_id=f"mark_{place}")(place) for place in range(10)))


one()
ten()
