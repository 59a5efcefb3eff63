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


def _is_below(bind: Bind, folder: str) -> bool:
    root = folder.removesuffix(WRITABLE)
    if bind.is_writable and root == folder:
        return False
    source, root = (posixpath.normpath("/" + each.lstrip("/")) for each in (bind.source, root))
    return source == root or source.startswith(root.rstrip("/") + "/")
