"""Names of the processes that an attempt leaves running, which are then killed."""

from collections import Counter
from collections.abc import Iterable

from rota.executor.kernel.process_trees import Tree
from rota.executor.kernel.procfs import children_of, running_name_of

_PROCESSES_MAX = 100  # To read the data of one process takes about 30 us of the loop.
_NAMES_MAX = 5


def killed_remains(trees: Iterable[Tree]) -> str:
    """Return a sentence about the running processes of *trees*, which are about to be killed.

    It is empty if there are none. It counts at most 100 processes and names at most 5 programs.
    """
    roots = [pid for tree in trees for pid in tree.members()]
    return _sentence(_running_names(roots)) if roots else ""


def _running_names(roots: list[int]) -> list[str]:
    """Return the names of *roots* and their descendants, at most one more than are counted."""
    names: list[str] = []
    waiting, seen = list(dict.fromkeys(roots)), set(roots)
    for pid in waiting:  # The list grows during the iteration.
        name = running_name_of(pid)
        if name is None:
            continue
        names.append(name)
        if len(names) > _PROCESSES_MAX:
            break
        children = [child for child in children_of(pid) if child not in seen]
        seen.update(children)
        waiting += children
    return names


def _sentence(names: list[str]) -> str:
    if not names:
        return ""
    is_cut = len(names) > _PROCESSES_MAX
    counts = Counter(names[:_PROCESSES_MAX])
    listed = [
        f"{_quoted(name)} ({count})" if count > 1 else _quoted(name)
        for name, count in counts.most_common(_NAMES_MAX)
    ]
    others = " and others" if is_cut or len(counts) > _NAMES_MAX else ""
    which = f"that it left running were killed: {', '.join(listed)}{others}"
    if is_cut:
        return f"more than {_PROCESSES_MAX} processes {which}"
    if len(names) == 1:
        return f"a process that it left running was killed: {listed[0]}"
    return f"{len(names)} processes {which}"


def _quoted(name: str) -> str:
    """Return the name of a program, escaped if necessary, as a program can choose any name."""
    is_plain = bool(name) and all(each.isalnum() or each in "._+:@/-" for each in name)
    return name if is_plain and name.isascii() else ascii(name)
