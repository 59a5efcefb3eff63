"""The node's settings for attempts, passed to every executor."""

import msgspec

MIB = 1 << 20


class AttemptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all attempts of a node, independent of their jobs.

    Attributes:
        umask: The umask of their processes: that with which the node was started.
        sandbox_tmp_bytes: The size of ``/tmp``, and of ``/dev/shm``, in each sandbox, in bytes.
        container_memory: The memory limit, in bytes, of a container whose task has none; 0 for no
            limit.
        container_pids: The limit of processes in a container whose task has none; 0 for no limit.
        private_files: Paths of the node's files with keys and passwords, which no bind shows.
        url: The address of the node's API for tasks; empty if it is not known.
        users: The users as which programs may run, besides that of the node.
        ca: The file of the authority of the API's certificate, for tasks; empty for none, or for
            those of the system.
        reloads_code: Whether Python workers reload code that has changed on disk.
    """

    umask: int = 0o022
    sandbox_tmp_bytes: int = 256 * MIB
    container_memory: int = 2048 * MIB
    container_pids: int = 1024
    reloads_code: bool = True
    private_files: tuple[str, ...] = ()
    url: str = ""
    users: tuple[str, ...] = ()
    ca: str = ""


USUAL = AttemptSettings()
"""The settings of a node that configures none."""


def settings_text(settings: AttemptSettings) -> str:
    """Return *settings* as JSON, for an argument of a program."""
    return msgspec.json.encode(settings).decode()


def settings_from(text: str) -> AttemptSettings:
    """Return the settings in *text*, the result of `settings_text`."""
    return msgspec.json.decode(text, type=AttemptSettings)
