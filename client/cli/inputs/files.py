"""Files of ``--file``: a folder stands for the files of definitions in it."""

from collections.abc import Iterable
from pathlib import Path

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")


def expanded(names: Iterable[str]) -> list[str]:
    """Return *names* with the files of each folder, in the order of their names, in its place.

    Hidden files, files with other suffixes, and the folders in a folder are left out.

    Raises:
        InvalidFile: A folder has no file of definitions, or cannot be read.
    """
    found: list[str] = []
    for name in names:
        is_folder = name != STANDARD_INPUT and Path(name).is_dir()
        found += _files_in(Path(name)) if is_folder else [name]
    return found


def _files_in(folder: Path) -> list[str]:
    from rota.client.definitions import InvalidFile

    try:
        named = (each for each in folder.iterdir() if not each.name.startswith("."))
        names = sorted(each for each in named if each.suffix in SUFFIXES)
    except OSError as error:
        raise InvalidFile(f"{folder}: {error.strerror}") from error
    files = [str(each) for each in names if each.is_file()]
    if not files:
        kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise InvalidFile(f"{folder}: there is no file of definitions ({kinds}) in it")
    return files
