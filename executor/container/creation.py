"""The request to create a container for an attempt, and the labels that identify it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import ExecutionId, NodeId
from rota.core.model.work import Bind, Image, ResourceLimits, Work
from rota.core.model.work_checks import problems_of_targets
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.launch.binds import BindRefusedError, ProtectedPaths, check_paths
from rota.executor.launch.secret_files import INSIDE
from rota.executor.launch.spawn import environment_of, variables_of_files
from rota.executor.secret_values import NO_SECRETS, SecretValues

Json: TypeAlias = "str | int | float | bool | Mapping[str, Json] | list[Json] | None"

STORE_LABEL = "rota.store"
EXECUTION_LABEL = "rota.execution"
TASK_LABEL = "rota.task"
ATTEMPT_LABEL = "rota.attempt"
TOKEN_LABEL = "rota.token"

FOLDER = "/run/rota"
"""The folder, in a container, of the files of reports; see `rota.executor.launch.task_channel`."""

LOG_DRIVER = "local"
"""The driver that keeps bytes as they are; ``json-file`` replaces those that are not UTF-8."""
_LOG_OPTIONS: dict[str, Json] = {"max-size": "16m", "max-file": "2", "compress": "false"}
# The engine's copy is read only after a restart of the warden, so it need not be long.


_TMPFS_BYTES = 4 << 20  # Room for a result and a checkpoint, and for the files that replace them.


class UnusableOrderError(Exception):
    """No container can be created for the order; the message is for the owner of the job."""


def creation(
    order: Order,
    *,
    node_id: NodeId,
    store_id: str,
    folder: Path | None,
    secrets: Path | None,
    values: SecretValues = NO_SECRETS,
    kept: ProtectedPaths,
    settings: AttemptSettings,
    has_log_driver: bool,
) -> dict[str, Json]:
    """Return the body of a request to create the container of *order*.

    The container does not get ``ROTA_STORE_ID``, by which `rota.executor.kernel.orphans` finds
    processes: a container is found by its labels and ended through its engine.

    Args:
        order: The attempt.
        node_id: Passed to the container in its environment.
        store_id: The id of the data directory that the container belongs to.
        folder: The folder bound at `FOLDER`; None for a tmpfs that is removed with the container.
        secrets: The folder with the files of secrets, bound at `INSIDE`; None for none.
        values: The secrets in these files; the body has no value.
        kept: Paths that are never bound.
        settings: The node's settings, with the limits that apply if the order has none.
        has_log_driver: True if the engine has `LOG_DRIVER`.

    Raises:
        UnusableOrderError: The order is contradictory, or requests what is never permitted.
    """
    work = order.work
    image = _image_of(work)
    environment = environment_of(order, {"ROTA_NODE_ID": node_id}, FOLDER)
    environment |= variables_of_files(values, INSIDE) if secrets else {}
    return {
        "Image": image.name,
        **_program_of(work),
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": work.cwd,
        "User": image.user,
        "OpenStdin": bool(work.stdin),
        "StdinOnce": True,  # The input ends when the connection that feeds it ends.
        "Labels": labels_of(order, store_id),
        "HostConfig": {
            # As the first process, an ordinary program would ignore TERM and leave zombies.
            "Init": True,
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "Mounts": [
                _mount_of_folder(folder),
                *map(_mount_of, _binds_of(order, image, kept)),
                *(_mount_of(Bind(str(path), INSIDE)) for path in (secrets,) if path),
            ],
            **({"NetworkMode": image.network} if image.network else {}),
            **_resources_of(work.limits, settings),
            **_log_config(is_secret=secrets is not None, has_log_driver=has_log_driver),
        },
    }


def labels_of(order: Order, store_id: str) -> dict[str, Json]:
    """Return the labels of the container of *order*."""
    return {
        STORE_LABEL: store_id,
        EXECUTION_LABEL: order.key.execution_id,
        TASK_LABEL: order.key.task,
        ATTEMPT_LABEL: str(order.key.number),
        TOKEN_LABEL: str(order.token),
    }


def key_of(labels: Mapping[str, str]) -> AttemptKey | None:
    """Return the attempt whose container has *labels*; None if they are not rota's."""
    number = labels.get(ATTEMPT_LABEL, "")
    if not number.isdecimal():
        return None
    execution_id = ExecutionId(labels.get(EXECUTION_LABEL, ""))
    return AttemptKey(execution_id, labels.get(TASK_LABEL, ""), int(number))


def _image_of(work: Work) -> Image:
    if work.image is None or not work.image.name:
        raise UnusableOrderError("a container task needs an image")
    if work.argv and work.shell:
        raise UnusableOrderError("a container task has at most one of argv and shell")
    if work.cwd and not os.path.isabs(work.cwd):
        raise UnusableOrderError(f"the working directory {work.cwd!r} is not an absolute path")
    if ":" in work.image.network:  # container:ID and the like.
        raise UnusableOrderError(
            f"the network {work.image.network!r} belongs to another container; name one of the "
            "engine's networks"
        )
    return work.image


def _binds_of(order: Order, image: Image, kept: ProtectedPaths) -> tuple[Bind, ...]:
    for _, why in problems_of_targets(image.binds, is_sandbox=False):
        raise UnusableOrderError(why)
    try:
        check_paths(image.binds, kept, order.permitted_binds)
    except BindRefusedError as error:
        raise UnusableOrderError(str(error)) from error
    return image.binds  # As in the order: the engine may have other files than this process.


def _program_of(work: Work) -> dict[str, Json]:
    argv = ("/bin/sh", "-c", work.shell) if work.shell else work.argv
    # If the request has an entry point, the engine does not add the command of the image.
    return {"Entrypoint": list(argv)} if argv else {}


def _mount_of_folder(folder: Path | None) -> dict[str, Json]:
    if folder is not None:
        return _mount_of(Bind(str(folder), FOLDER, is_writable=True))
    # The folder is never read, but programs that write to it do not fail.
    return {"Type": "tmpfs", "Target": FOLDER, "TmpfsOptions": {"SizeBytes": _TMPFS_BYTES}}


def _mount_of(bind: Bind) -> dict[str, Json]:
    # Not the older "Binds", which creates a missing source as an empty folder owned by root.
    return {
        "Type": "bind",
        "Source": bind.source,
        "Target": bind.target,
        "ReadOnly": not bind.is_writable,
    }


def _resources_of(limits: ResourceLimits, settings: AttemptSettings) -> dict[str, Json]:
    memory = limits.memory or settings.container_memory
    limited: dict[str, Json] = {
        "NanoCpus": round(limits.cpu * 1e9),
        "Memory": memory,
        "MemorySwap": memory,  # Memory and swap together, so there is no swap.
        "PidsLimit": limits.pids or settings.container_pids,
    }
    return {name: value for name, value in limited.items() if value}


def _log_config(*, is_secret: bool, has_log_driver: bool) -> dict[str, Json]:
    if is_secret:  # The engine's copy would have the output before it is masked.
        return {"LogConfig": {"Type": "none", "Config": {}}}
    return {"LogConfig": _LOG_CONFIG} if has_log_driver else {}


_LOG_CONFIG: dict[str, Json] = {"Type": LOG_DRIVER, "Config": _LOG_OPTIONS}
