"""The data directory of a node: its lock, its format and its identity.

    LOCK           locked while a process uses the directory; holds its process id
    FORMAT         format and identity in JSON; written once, when the directory is new
    INCARNATION    number of the newest process that used it; grows with every start
    db/            the store
    output/        stdout and stderr of attempts

Everything is accessible only to the node's user: the node's umask ensures this, and
`DataDirectory.open` for files of earlier versions.

`FORMAT` is written atomically, so a directory without it was never used: a crash before the write
leaves only names that `DataDirectory.open` accepts in a new directory.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.timing.instants import SECOND, Instant
from rota.storage.store import (
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreMismatch,
    StoreTooNew,
)

FORMAT = 1
"""The newest format that this version of rota reads, and the format that it writes."""

_FORMAT_FILE = "FORMAT"
_INCARNATION_FILE = "INCARNATION"
_UNFINISHED = ".new"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOCK_FILE = "LOCK"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Every ext file system has a lost+found at its root, and the data directory may be such a root.
_NOT_FOREIGN = frozenset({_LOCK_FILE, _FORMAT_FILE + _UNFINISHED, "lost+found"})


class Identity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of ``FORMAT``.

    Attributes:
        format: Version of the layout of the directory and of the store.
        store_id: Permanent random name of this copy of the data.
        shard_count: The number of shards of the cluster.
        cluster: The UUID of the cluster that the data belongs to.
    """

    format: int
    store_id: str
    shard_count: int
    cluster: str


class _Version(msgspec.Struct):
    """The only field that every later format keeps."""

    format: int


class DataDirectory:
    """A data directory in use by this process, from `open` until `close`.

    Attributes:
        path: The directory, absolute.
        identity: The content of its ``FORMAT``.
        store_path: The folder of the store.
        output_path: The folder of the output of attempts.
        made_at: When it was created, by the wall clock.
        is_new: Whether this process is the first to use it.
        lock_id: Identifies the lock among all locks on files; empty if that is impossible. Of two
            processes with the same value at most one runs: the kernel and the file are the same.
    """

    def __init__(self, path: Path, identity: Identity, lock: int) -> None:
        self.path = path
        self.identity = identity
        self.store_path = path / "db"
        self.output_path = path / "output"
        self.lock_id = _lock_id(lock)
        self.made_at = Instant((path / _FORMAT_FILE).stat().st_mtime_ns // 1_000)
        self.is_new = not (path / _INCARNATION_FILE).exists()
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, store_id: str, shard_count: int, cluster: str) -> Self:
        """Return the directory at *path*, locked; it is created if missing or empty.

        Args:
            path: The directory; the path may be relative, and may be a symbolic link.
            store_id: A new random name, used only if the directory is new.
            shard_count: The number of shards for which the node is configured.
            cluster: The cluster's UUID, used only if the directory is new; otherwise the caller has
                to compare ``identity.cluster`` with the cluster's.

        Raises:
            StoreLocked: Another process uses the directory.
            StoreTooNew: A newer version of rota wrote it.
            StoreDamaged: Its ``FORMAT`` cannot be read.
            StoreMismatch: It has another number of shards, or is not empty and was not created by
                rota.
            StoreFull: There is no space left to create it.
            StoreFailed: The system refused for another reason.
        """
        path = path.absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_foreign(path)
            lock = _lock(path)
            try:
                wanted = Identity(
                    format=FORMAT, store_id=store_id, shard_count=shard_count, cluster=cluster
                )
                directory = cls(path, _read_or_write_identity(path, wanted), lock)
                directory.store_path.mkdir(mode=0o700, exist_ok=True)
                directory.output_path.mkdir(mode=0o700, exist_ok=True)
                _close_to_others(path)
                _close_to_others(directory.store_path)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise _classified(error, path) from error
        return directory

    def begin_incarnation(self, now: Instant) -> int:
        """Return the number of this process, higher than that of every earlier one here.

        The number is durable before it is returned. It is at least *now* in seconds, so that the
        numbers of a node increase even if its directory was replaced.

        Raises:
            StoreDamaged: The file with the number cannot be read.
            StoreFull: There is no space left to write it.
            StoreFailed: The system refused for another reason.
        """
        file = self.path / _INCARNATION_FILE
        try:
            incarnation = max(_incarnation_in(file) + 1, now // SECOND)
            _write_whole(file, b"%d\n" % incarnation)
        except OSError as error:
            raise _classified(error, self.path) from error
        return incarnation

    def close(self) -> None:
        """Release the directory; idempotent. Close the store in it first."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def identity_in(path: Path) -> Identity | None:
    """Return the identity of the directory at *path* without using it; None if it is new.

    Raises:
        StoreTooNew: A newer version of rota wrote it.
        StoreDamaged: Its ``FORMAT`` cannot be read.
        StoreFailed: The system refused.
    """
    file = path / _FORMAT_FILE
    try:
        return _parse(file.read_bytes(), file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _classified(error, path) from error


def _refuse_foreign(path: Path) -> None:
    names = {entry.name for entry in path.iterdir()}
    if _FORMAT_FILE in names or names <= _NOT_FOREIGN:
        return
    raise StoreMismatch(
        f"{path} is not empty and has no {_FORMAT_FILE} file, so it is not a data directory of "
        f"rota (it contains {min(names - _NOT_FOREIGN)}); choose another with --data-dir"
    )


def _close_to_others(folder: Path) -> None:
    """Remove the access of other users to *folder* and its content.

    A folder in it that is closed already is skipped: files of rota in it are closed too, and others
    belong to a running task. Files of another user, as on a mounted volume, stay unchanged. A file
    that a task of an earlier process removes at the same time is ignored.
    """
    with suppress(PermissionError):
        folder.chmod(0o700)
    for entry in os.scandir(folder):
        with suppress(PermissionError, FileNotFoundError):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode) or not mode & _OTHERS:
                continue
            if stat.S_ISDIR(mode):
                _close_to_others(Path(entry))
            else:
                os.chmod(entry, stat.S_IMODE(mode) & ~_OTHERS)


def _lock(path: Path) -> int:
    """Return a descriptor that holds the lock until it is closed, or the process ends."""
    # The file is never removed: otherwise two processes could lock two files of one name.
    lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    except BlockingIOError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StoreLocked(
            f"data directory {path} is in use by process {holder}; stop it, or choose another "
            "with --data-dir"
        ) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _lock_id(lock: int) -> str:
    """Return the running kernel, the file system and the number of the file that *lock* locks.

    A file that is locked keeps its number and its file system, so no other file has them.
    """
    try:
        kernel = _BOOT_ID.read_text().strip()
    except OSError:
        return ""
    file = os.fstat(lock)
    return f"{kernel}/{file.st_dev:x}/{file.st_ino}" if kernel else ""


def _read_or_write_identity(path: Path, wanted: Identity) -> Identity:
    file = path / _FORMAT_FILE
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        _write_whole(file, msgspec.json.format(msgspec.json.encode(wanted)) + b"\n")
        return wanted
    identity = _parse(text, file)
    if identity.shard_count != wanted.shard_count:
        raise StoreMismatch(
            f"data directory {path} was made for {identity.shard_count} shards, and "
            f"{wanted.shard_count} are configured. The number of shards cannot be changed: set it "
            f"back to {identity.shard_count}, or choose an empty directory with --data-dir"
        )
    return identity


def _parse(text: bytes, file: Path) -> Identity:
    try:
        found = msgspec.json.decode(text, type=_Version).format
        if found > FORMAT:
            raise StoreTooNew(
                f"data directory {file.parent} was written by a newer version of rota (format "
                f"{found}; this version reads up to {FORMAT}); use the newer version"
            )
        return msgspec.json.decode(text, type=Identity)
    except UNDECODABLE as error:
        raise StoreDamaged(
            f"{file} is damaged: {error}. Restore the file from a backup, or give the node an "
            "empty data directory and let it be filled from the other replicas"
        ) from error


def _incarnation_in(file: Path) -> int:
    """Return the number in *file*, 0 if there is no such file."""
    try:
        return int(file.read_bytes())
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise StoreDamaged(
            f"{file} is damaged: it contains no number. Remove the file; the node then "
            "counts from the current time"
        ) from error


def _write_whole(file: Path, content: bytes) -> None:
    """Write *file* so that after a power loss it has *content* or its previous content."""
    unfinished = file.with_name(file.name + _UNFINISHED)
    with unfinished.open("wb") as output:
        output.write(content)
        output.flush()
        os.fsync(output.fileno())
    unfinished.rename(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # The new name is in the folder, not in the file.
    finally:
        os.close(folder)


def _classified(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(
            f"no space left for data directory {path}; free some space, or choose another with "
            "--data-dir"
        )
    return StoreFailed(
        f"data directory {path} cannot be used: {error.strerror}; make it a directory to which the "
        "user of rota may write, or choose another with --data-dir"
    )
