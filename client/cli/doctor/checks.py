"""Checks with their result, and the judgement of what was measured on a machine."""

from pathlib import Path
from typing import Literal

import msgspec

from rota.client.cli.display.show import Column, Look
from rota.client.cli.human import counted, size

FILES_MIN = 1024
"""The open files below which a node fails under any load: it keeps hundreds for its store."""
FILES_AMPLE = 65_536
"""As in the unit file of docs/how-to/deploy.md; an attempt needs two, a connection one."""
DISK_RESERVE_BYTES = 256 << 20
"""The default of the setting `disk_reserve_mb`, below which a node refuses requests."""
DISK_AMPLE_FACTOR = 4
DAYS_LEFT_MIN = 14
"""As for `rota certs show`."""


class CheckView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check.

    Attributes:
        check: What was checked.
        state: ``fail``: something does not work; ``warn``: it works, but may not for long.
        seen: What was measured.
        mend: What to do; empty if it is ``ok``.
    """

    check: str
    state: Literal["ok", "warn", "fail"]
    seen: str
    mend: str = ""


LOOK: Look[CheckView] = Look(
    name=lambda view: view.check,
    columns=(
        Column("CHECK", lambda view, _: view.check),
        Column("STATE", lambda view, _: view.state),
        Column("SEEN", lambda view, _: view.seen),
        Column("MEND", lambda view, _: view.mend, is_optional=True),
    ),
)


def fine(check: str, seen: str) -> CheckView:
    """Return a check that found nothing wrong."""
    return CheckView(check=check, state="ok", seen=seen)


def judge_clock(*, is_synchronized: bool | None) -> CheckView:
    """Judge the clock by what the kernel reports; None if the kernel cannot be asked."""
    if is_synchronized:
        return fine("clock", "a program keeps it synchronized")
    seen = "unknown" if is_synchronized is None else "no program keeps it synchronized"
    mend = "run chrony or systemd-timesyncd on each node; in a container, on its machine"
    return CheckView(check="clock", state="warn", seen=seen, mend=mend)


def judge_zones(version: str | None) -> CheckView:
    """Judge the time zones by the *version* of tzdata: empty if unknown, None if it is missing."""
    if version is None:
        mend = "install the package tzdata of the system, or pip install tzdata"
        return CheckView(
            check="tzdata", state="fail", seen="no data of Europe/Berlin and UTC", mend=mend
        )
    return fine("tzdata", f"version {version}" if version else "installed")


def judge_files(most: int | None) -> CheckView:
    """Judge the limit of open files, to which a node raises its own; None for no limit."""
    if most is None or most >= FILES_AMPLE:
        return fine("open files", "no limit" if most is None else f"at most {most:,}")
    return CheckView(
        check="open files",
        state="fail" if most < FILES_MIN else "warn",
        seen=f"at most {most:,} in a process started here",
        mend=f"LimitNOFILE={FILES_AMPLE} in the unit of systemd, or ulimit -Hn {FILES_AMPLE}",
    )


def judge_disk(folder: Path, free_bytes: int, *, is_there: bool = True) -> CheckView:
    """Judge the free space of the disk of the folder of the data, which may not be there yet."""
    seen = f"{size(free_bytes)} free for {folder}"
    if not is_there:
        seen = f"there is no folder {folder}; its disk would have {size(free_bytes)} free"
        mend = "check --data-dir; a node makes the folder at its first start"
        return CheckView(check="disk", state="warn", seen=seen, mend=mend)
    if free_bytes >= DISK_RESERVE_BYTES * DISK_AMPLE_FACTOR:
        return fine("disk", seen)
    state: Literal["warn", "fail"] = "fail" if free_bytes < DISK_RESERVE_BYTES else "warn"
    mend = f"free some space: below {size(DISK_RESERVE_BYTES)} a node refuses new work"
    return CheckView(check="disk", state=state, seen=seen, mend=mend)


def judge_sandbox(fault: str | None) -> CheckView:
    """Judge a sandbox that was tried; *fault* is None if it worked."""
    if fault is None:
        return fine("sandbox", "bubblewrap makes sandboxes")
    mend = "install bubblewrap, and allow user namespaces; only tasks with a sandbox need it"
    return CheckView(check="sandbox", state="warn", seen=fault, mend=mend)


def judge_certificate(file: str, days_left: int) -> CheckView:
    """Judge a certificate by the days until it ends, negative afterwards."""
    if days_left < 0:
        seen = f"has ended {counted(-days_left, 'day', 'days')} ago"
    else:
        seen = f"ends in {counted(days_left, 'day', 'days')}"
    if days_left >= DAYS_LEFT_MIN:
        return fine(file, seen)
    return CheckView(
        check=file,
        state="fail" if days_left < 0 else "warn",
        seen=seen,
        mend="renew it with `rota certs renew`",
    )
