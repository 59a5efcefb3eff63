"""Words for the states of executions, tasks and attempts in requests and options."""

SUCCESS = "success"
SUCCEEDED = "succeeded"
"""A synonym of `SUCCESS` in filters; documents never contain it."""


def status_word(given: str) -> str:
    """Return *given* with `SUCCESS` in place of its synonym, also as the end of an event's type.

    >>> status_word("succeeded"), status_word("task.succeeded"), status_word("failed")
    ('success', 'task.success', 'failed')
    """
    kind, dot, status = given.rpartition(".")
    return f"{kind}{dot}{SUCCESS}" if status == SUCCEEDED else given
