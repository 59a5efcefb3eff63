"""Permitted binds: the folders of a machine that the policy of a namespace lets tasks bind."""

import posixpath

from rota.core.model.work import Bind

WRITABLE = ":rw"
"""The end of a folder below which binds may be writable."""
BY_POLICY = "policy of the namespace"
"""The beginning of the reason of an attempt that a policy refuses; such an attempt is permanent."""


def is_permitted(bind: Bind, folders: tuple[str, ...]) -> bool:
    """Return True if the source of *bind* is one of *folders* or below it.

    Links are not followed. A writable bind needs a folder with `WRITABLE` after it.
    """
    return any(_is_below(bind, folder) for folder in folders)


def is_exchangeable(source: str, folders: tuple[str, ...]) -> bool:
    """Return True if *source* is below a folder of *folders* in which tasks may write.

    Such tasks can replace it by a link at any time. Links are not followed.
    """
    writable = (each.removesuffix(WRITABLE) for each in folders if each.endswith(WRITABLE))
    return any(_is_in(source, each) and not _is_in(each, source) for each in writable)


def _is_below(bind: Bind, folder: str) -> bool:
    root = folder.removesuffix(WRITABLE)
    return not (bind.is_writable and root == folder) and _is_in(bind.source, root)


def _is_in(path: str, folder: str) -> bool:
    path, folder = (posixpath.normpath("/" + each.lstrip("/")) for each in (path, folder))
    return path == folder or path.startswith(folder.rstrip("/") + "/")
