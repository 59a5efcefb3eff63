"""Files of ``--file``: a folder stands for the files of definitions in it."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")

HELP = (
    "Jobs and documents in YAML or JSON, or a folder of such files; - is standard input. "
    "Repeatable."
)
files_option = click.option(
    "-f", "--file", "files", metavar="FILE", multiple=True, required=True, help=HELP
)
optional_files_option = click.option(
    "-f", "--file", "files", metavar="FILE", multiple=True, help=HELP
)


class Item(NamedTuple):
    """A job or a document in a file.

    Attributes:
        fields: Its fields.
        file: The name of the file in messages.
        number: Its number in the file, from 1.
        folder: The folder in which its relative paths begin.
    """

    fields: dict[str, Any]  # Any: as written; the node checks it.
    file: str
    number: int
    folder: Path

    @property
    def place(self) -> str:
        """The file and the number, for errors."""
        return f"{self.file}, document {self.number}"


def items_in(files: Iterable[str]) -> Iterator[Item]:
    """Yield the jobs and documents in *files*, of which each may be a folder.

    Raises:
        InvalidFile: A file cannot be read or parsed, or has no items.
    """
    for file in expanded(files):
        yield from items_of(file, text_of(file))


def text_of(file: str) -> str:
    """Return the content of a file, or of standard input.

    Raises:
        InvalidFile: As for `rota.client.definitions.read_text`.
    """
    from rota.client.definitions import read_text, text_in

    is_input = file == STANDARD_INPUT
    return text_in(sys.stdin.buffer, "standard input") if is_input else read_text(Path(file))


def items_of(file: str, text: str) -> Iterator[Item]:
    """Yield the jobs and documents in *text*, which is the content of *file*.

    Raises:
        InvalidFile: The text cannot be parsed, or has no items.
    """
    from rota.client.definitions import parse_definitions

    is_input = file == STANDARD_INPUT
    name, folder = ("standard input", Path()) if is_input else (file, Path(file).parent)
    for number, fields in enumerate(parse_definitions(text, name), 1):
        yield Item(fields, name, number, folder)


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
