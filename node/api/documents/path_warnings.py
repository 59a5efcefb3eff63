"""Warnings about folders and programs of tasks that do not exist on this node."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import islice

from rota.core.model.ids import NodeId
from rota.core.model.job import JobSpec, TaskSpec
from rota.core.model.work import Work
from rota.core.model.work_checks import is_unsandboxed
from rota.core.quoting import in_quotes

TASKS_MAX = 100
"""The most tasks of a job that are checked."""

_PLAIN = re.compile(r"[A-Za-z0-9_./+:,@%=-]+( +[A-Za-z0-9_./+:,@%=-]+)*", re.ASCII)
"""A line for the shell that is a program and its arguments, and nothing else."""
_AFTER = "an attempt fails where it is missing"


def path_warnings(spec: JobSpec, node_id: NodeId, labels: Mapping[str, str]) -> list[str]:
    """Return the warnings about the first `TASKS_MAX` tasks that can run on this node.

    This function blocks while a disk hangs. It warns only about files that certainly do not exist.
    Tasks in a container or a sandbox are left out, since they have their own files.

    Args:
        spec: The job.
        node_id: This node.
        labels: The labels of this node.
    """
    checked = (task.work for task in spec.tasks if _runs_on_files_of(task, labels))
    found = (text for work in islice(checked, TASKS_MAX) for text in _missing(work, node_id))
    return list(dict.fromkeys(found))


def may_have_warnings(spec: JobSpec) -> bool:
    """Return True if a task names a folder or the path of a program."""
    return any(task.work.cwd or _program_path(task.work) for task in spec.tasks)


def _runs_on_files_of(task: TaskSpec, labels: Mapping[str, str]) -> bool:
    work = task.work
    return is_unsandboxed(work) and all(labels.get(name) == value for name, value in task.selector)


def _missing(work: Work, node_id: NodeId) -> Iterator[str]:
    if work.cwd and not _exists(work.cwd, is_folder=True):
        yield f"there is no folder {in_quotes(work.cwd)} (cwd) on node {node_id}; {_AFTER}"
        return
    program = _program_path(work)
    if not program:
        return
    if not work.cwd and not os.path.isabs(program):
        yield (
            f"there is no program {in_quotes(program)} in the empty folder of a task without cwd; "
            "give the program's absolute path, or set cwd (`--cwd FOLDER` of `rota jobs create`)"
        )
    elif not _exists(os.path.join(work.cwd, program), is_folder=False):
        where = "" if os.path.isabs(program) else f" in {in_quotes(work.cwd)} (cwd)"
        yield f"there is no program {in_quotes(program)}{where} on node {node_id}; {_AFTER}"


def _program_path(work: Work) -> str:
    """Return the program of *work* if it is a path; empty if it is a name or there is none.

    That of a line for the shell is found if the line has no characters that are special there.
    """
    if work.argv:
        word = work.argv[0]
    else:
        word = work.shell.partition(" ")[0] if _PLAIN.fullmatch(work.shell) else ""
    return word if "/" in word and "=" not in word else ""


def _exists(path: str, *, is_folder: bool) -> bool:
    """Return False if *path* certainly does not exist, or is not a folder although it should be."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return stat.S_ISDIR(mode) or not is_folder
