"""Checks of the machine on which the command runs."""

import ctypes
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError

from rota.client.cli.doctor.checks import (
    CheckView,
    judge_certificate,
    judge_clock,
    judge_disk,
    judge_files,
    judge_sandbox,
    judge_zones,
)
from rota.client.cli.human import now
from rota.client.extras import NotInstalled

TIMEX_BYTES = 512
"""More than the 208 bytes of ``struct timex`` (adjtimex(2)); zeros ask and set nothing."""
UNSYNCHRONIZED = 5
"""``TIME_ERROR``, the result of adjtimex(2) while nothing synchronizes the clock."""
SANDBOX = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true")
ZONES = ("UTC", "Europe/Berlin")
"""Zones that all data of time zones have."""
PATIENCE_S = 10.0


def checks_of_machine(folder: Path) -> Iterator[CheckView]:
    """Yield the checks of clock, time zones, open files, disk and sandbox.

    Args:
        folder: The folder of the node's data, which need not exist yet.
    """
    yield judge_clock(is_synchronized=_is_synchronized())
    yield judge_zones(_version_of_zones())
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield judge_files(None if most == resource.RLIM_INFINITY else most)
    free_bytes = shutil.disk_usage(_existing(folder)).free
    yield judge_disk(folder, free_bytes, is_there=folder.is_dir())
    yield judge_sandbox(_fault_of_sandbox())


def checks_of_certificates(files: Sequence[Path]) -> Iterator[CheckView]:
    """Yield a check for each file with a certificate."""
    if not files:
        return
    try:
        from rota.client.certificates.issuing import InvalidCertificate
        from rota.client.cli.certs.certificate_views import view_of
    except ImportError:
        yield CheckView(
            check="certificates",
            state="warn",
            seen="not checked",
            mend=str(NotInstalled("cryptography")),
        )
        return
    for file in files:
        try:
            yield judge_certificate(str(file), view_of(file, now()).days_left)
        except InvalidCertificate as error:
            yield CheckView(
                check=str(file), state="fail", seen=error.detail, mend="give another file"
            )


def _is_synchronized() -> bool | None:
    """Return True if a program synchronizes the clock; None if the kernel refuses an answer."""
    library = ctypes.CDLL(None, use_errno=True)
    state = library.adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    return None if state < 0 else state != UNSYNCHRONIZED


def _version_of_zones() -> str | None:
    try:
        for zone in ZONES:
            ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError):
        return None
    for folder in TZPATH:
        source = Path(folder) / "tzdata.zi"
        if source.is_file():
            with source.open(encoding="utf-8", errors="replace") as lines:
                return lines.readline().removeprefix("# version ").strip()
    return ""


def _existing(folder: Path) -> Path:
    whole = folder.absolute()
    return next(each for each in (whole, *whole.parents) if each.exists())


def _fault_of_sandbox() -> str | None:
    """Return why a sandbox cannot be made; None if it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "there is no bwrap"
    try:
        ran = subprocess.run(
            [program, *SANDBOX], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if ran.returncode == 0 else ran.stderr.strip() or f"exit code {ran.returncode}"
