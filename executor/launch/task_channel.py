"""Reports of running programs, in any language, through files in their private folders.

| variable | the program writes |
|---|---|
| ``ROTA_PROGRESS`` | its progress: ``50``, or ``{"percent": 50}``; the last line counts |
| ``ROTA_CHECKPOINT`` | data for the next attempt; contains what the last attempt saved |
| ``ROTA_RESULT`` | its result as JSON, read when it has ended |

A fourth file, ``ROTA_RESULTS``, is for the program to read: the results of the tasks that it needs.

No attempt needs a thread or a watch: all files are read once a second, together. The program may be
hostile: only regular files in the folder itself are read, up to a limit.
"""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import CHECKPOINT_BYTES_MAX, RESULT_BYTES_MAX, Order, Report

log = logging.getLogger(__name__)

PROGRESS, CHECKPOINT, RESULT = ".rota-progress", ".rota-checkpoint", ".rota-result"
RESULTS = ".rota-results"
_FILES = {"ROTA_PROGRESS": PROGRESS, "ROTA_CHECKPOINT": CHECKPOINT, "ROTA_RESULT": RESULT}

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NOWHERE = Path(os.devnull)  # Not a folder, so it has no files.
_LINE_BYTES = 4096  # The part of the progress that is read; its last line has a few bytes.
_SHOWN_BYTES = 40  # The part of an invalid progress that is shown.


class BadResultError(Exception):
    """The content of the result file is not a result; the message is for the owner of the job."""


class _UnreadableError(Exception):
    """A file of reports cannot be read; the message is the reason."""


class Collected(NamedTuple):
    """The final report of a program.

    Attributes:
        report: The changes since its files were last read; None if there are none.
        result: Its result as JSON; empty if there is none.
        bad_result: The reason why the content of its result file is not a result; else empty.
        complaint: Another error in its files; else empty.
    """

    report: Report | None = None
    result: bytes = b""
    bad_result: str = ""
    complaint: str = ""


def files_of(order: Order) -> dict[str, str]:
    """Return the variables that name files of the attempt of *order*, and the files' names."""
    return {**_FILES, "ROTA_RESULTS": RESULTS} if order.results else _FILES


class _Percent(msgspec.Struct):
    percent: float


class TaskChannel:
    """The files of one attempt; the methods access the disk, so they are called in threads.

    Args:
        folder: The private folder of the attempt.
        owner: The number of the user whose files are read; None for the files of all users. A link
            to a file of another user would show that file.
    """

    __slots__ = (
        "_checkpoint_bytes",
        "_descriptor",
        "_not_understood",
        "_owner",
        "_seen",
        "_unreadable",
        "folder",
    )

    def __init__(self, folder: Path, *, owner: int | None = None) -> None:
        self.folder = folder
        self._owner = owner
        self._descriptor = -1
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._checkpoint_bytes = 0
        self._not_understood = b""
        self._unreadable: dict[str, str] = {}

    @classmethod
    def in_memory(cls, descriptor: int) -> Self:
        """Return the files in a sandbox's folder, which is accessed by *descriptor* until `close`.

        The file system of the folder is in memory, and lasts as long as the descriptor.
        """
        channel = cls(Path(f"/proc/self/fd/{descriptor}"))
        channel._descriptor = descriptor
        return channel

    @property
    def is_in_memory(self) -> bool:
        """Whether there is no folder that has to be removed."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Close the descriptor, whose number may be given to another file from now on."""
        descriptor, self._descriptor = self._descriptor, -1
        self.folder = _NOWHERE
        os.close(descriptor)

    def begin(self, order: Order) -> None:
        """Write the checkpoint and the needed results of *order* to their files."""
        if order.checkpoint:
            self._write(CHECKPOINT, order.checkpoint)
            self._has_changed(CHECKPOINT)
        if order.results:
            self._write(RESULTS, order.results)

    def _write(self, name: str, content: bytes) -> None:
        # Never into a file that is there: it could be a link, or a pipe that is not read.
        with suppress(FileNotFoundError):
            os.unlink(self.folder / name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(self.folder / name, flags, 0o666), "wb") as file:
            file.write(content)

    def news(self) -> Report | None:
        """Return the changes since the last call; None if there are none."""
        percent = checkpoint = None
        if self._has_changed(PROGRESS):
            content = self._read_report(PROGRESS, _LINE_BYTES, from_end=True)
            percent = percent_in(content)
            self._not_understood = _last_line(content) if percent is None else b""
        if self._has_changed(CHECKPOINT):
            content = self._read_report(CHECKPOINT, CHECKPOINT_BYTES_MAX + 1)
            self._checkpoint_bytes = len(content)
            if 0 < len(content) <= CHECKPOINT_BYTES_MAX:
                checkpoint = content
        if percent is None and checkpoint is None:
            return None
        return Report(percent=percent, checkpoint=checkpoint)

    def collect(self) -> Collected:
        """Return the last changes and the result of a program that has ended.

        Even a bug raises nothing: whatever a program wrote, its attempt must end.
        """
        try:
            report, result, bad_result = self.news(), b"", ""
            try:
                result = self.result()
            except BadResultError as error:
                bad_result = str(error)
            return Collected(report, result, bad_result, self.complaint)
        except Exception as error:
            log.exception("reports not read", extra={"folder": str(self.folder)})
            return Collected(bad_result=f"its reports cannot be read: {error!r}")

    @property
    def complaint(self) -> str:
        """The error in the last reports, for the record of the attempt; normally empty."""
        complaints = [
            f"its {name.removeprefix('.rota-')} is not read: {why}"
            for name, why in self._unreadable.items()
        ]
        if self._checkpoint_bytes > CHECKPOINT_BYTES_MAX:
            limit = f"larger than {CHECKPOINT_BYTES_MAX} bytes"
            complaints.append(f"its last checkpoint is not saved: it is {limit}")
        if self._not_understood:
            shown = self._not_understood[:_SHOWN_BYTES].decode(errors="replace")
            complaints.append(f"its last progress is not a percentage: {shown!r}")
        return "; ".join(complaints)

    def result(self) -> bytes:
        """Return the result as JSON; empty if there is none.

        Raises:
            BadResultError: The result is too large, not JSON, or cannot be read.
        """
        try:
            content = self._read(RESULT, RESULT_BYTES_MAX + 1)
        except _UnreadableError as error:
            raise BadResultError(f"its result is not read: {error}") from error
        if len(content) > RESULT_BYTES_MAX:
            raise BadResultError(f"its result is larger than {RESULT_BYTES_MAX} bytes")
        content = content.strip()
        if content:
            try:
                msgspec.json.decode(content)
            except RecursionError as error:
                raise BadResultError("its result is nested too deeply") from error
            except UNDECODABLE as error:
                raise BadResultError(f"its result is not JSON: {error}") from error
        return content

    def _has_changed(self, name: str) -> bool:
        try:
            found = os.stat(self.folder / name, follow_symlinks=False)
        except OSError:
            return False
        now = (found.st_ino, found.st_mtime_ns, found.st_size)
        has_changed = self._seen.get(name) != now
        self._seen[name] = now
        return has_changed

    def _read_report(self, name: str, limit: int, *, from_end: bool = False) -> bytes:
        self._unreadable.pop(name, None)
        try:
            return self._read(name, limit, from_end=from_end)
        except _UnreadableError as error:
            self._unreadable[name] = str(error)
            return b""

    def _read(self, name: str, limit: int, *, from_end: bool = False) -> bytes:
        """Return the first or last *limit* bytes of a file; empty if there is none.

        Raises:
            _UnreadableError: It is no file, or may not be read.
        """
        try:
            # Checked before it is opened, which has an effect on some devices.
            self._check(os.stat(self.folder / name, follow_symlinks=False))
            # Links are not followed, and a named pipe without a writer does not block.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self.folder / name, flags)
            try:
                found = os.fstat(fd)
                self._check(found)
                return os.pread(fd, limit, max(0, found.st_size - limit) if from_end else 0)
            finally:
                os.close(fd)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise _UnreadableError(f"{error.strerror}") from error

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "of an unknown type")
            raise _UnreadableError(f"it is {kind}, not a file")
        if self._owner not in (None, found.st_uid):
            raise _UnreadableError("it belongs to another user")


def percent_in(content: bytes) -> int | None:
    """Return the percentage in the last line of *content*, 0 to 100; None if there is none.

    If the last line has no percentage, the result is None, and the attempt does not fail.
    """
    line = _last_line(content).removesuffix(b"%")
    with suppress(ValueError, OverflowError, *UNDECODABLE):
        is_json = line.startswith(b"{")
        percent = msgspec.json.decode(line, type=_Percent).percent if is_json else float(line)
        return max(0, min(100, int(percent)))
    return None


def _last_line(content: bytes) -> bytes:
    return content.strip().rpartition(b"\n")[2]
