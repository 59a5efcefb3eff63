"""Job definitions in files: YAML or its subset JSON, with one job or a list of jobs per document.

YAML 1.1 has surprises: ``no`` is false, ``1:30`` is 90, ``on`` as a key is true, ``010`` is 8, a
date is an object, and of two equal keys the last one takes effect. Here, as in YAML 1.2, only
``true`` and ``false`` are truth values, and only decimal numbers are numbers; everything else is
text. Equal keys, and keys that are not text, are refused; members that a merge key (``<<``) adds
do not replace those of its mapping.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import yaml

from rota.core.decoding import repeated_key, second_key
from rota.core.errors import RotaError
from rota.core.quoting import in_quotes, shortened

FILE_BYTES_MAX = 64 << 20
"""The most bytes of a file of definitions; `rota export` writes 100,000 jobs in half of it."""
NUMBER_DIGITS_MAX = 309
"""The most digits of an integer. No JSON number is longer: integers of a node have 64 bits, and its
other numbers are at most 1.8e308."""
REPEATED_MAX = 1_000_000
"""The most values of a file that references to anchors repeat: a few lines of references to
references can stand for more values than a machine has memory for."""

Definition = dict[str, Any]
"""The document of a job as written. The values are Any, because the node validates them."""


ValuePath = tuple[str | int, ...]
"""The keys and numbers that lead to a value in a document."""
Lines = dict[ValuePath, int]
"""The line of each value of a document, from 1."""


class InvalidFile(RotaError):
    """A file contains no valid job definitions; the message states the place and the reason."""

    code = "invalid_file"


def read_definitions(path: Path) -> list[Definition]:
    """Return the jobs that a file defines.

    Raises:
        InvalidFile: The file cannot be read or parsed, or defines no job.
    """
    return parse_definitions(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text in a file.

    Raises:
        InvalidFile: As for `text_in`, or the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return text_in(stream, str(path))
    except OSError as error:
        raise InvalidFile(f"{path}: {error.strerror}") from error


def text_in(stream: IO[bytes], source: str) -> str:
    """Return the text in *stream*, with newlines as line ends; *source* is its name in errors.

    Raises:
        InvalidFile: It has more than `FILE_BYTES_MAX` bytes, or is not UTF-8.
    """
    content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        limit = f"{FILE_BYTES_MAX >> 20} MiB"
        raise InvalidFile(f"{source}: the file has more than {limit}, the limit; split it")
    try:
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        detail = f"{source}: the file is not UTF-8 text: {error.reason}; save it as UTF-8"
        raise InvalidFile(detail) from error


def parse_definitions(text: str, source: str) -> list[Definition]:
    """Return the jobs that *text* defines.

    Args:
        text: One or more YAML documents, or JSON.
        source: The name of the text in errors.

    Raises:
        InvalidFile: The text cannot be parsed, or defines no job.

    >>> parse_definitions("{name: hello, command: echo hello, retries: 2}", "an example")
    [{'name': 'hello', 'command': 'echo hello', 'retries': 2}]
    """
    items: list[Any] = []
    for document in _documents(text, source):
        items += document if isinstance(document, list) else [document]
    for item in items:
        if not isinstance(item, dict):
            raise InvalidFile(
                f"{source}: {item!r} is not a job; a job has fields, such as name and command"
            )
    if not items:
        raise InvalidFile(f"{source}: there is no job in it; add one with name and command")
    return items


def documents_with_lines(
    text: str, source: str, *, is_strict: bool = False
) -> list[tuple[object, Lines]]:
    """Return each document of YAML or JSON *text*, with the lines of its values.

    Args:
        text: The text.
        source: The name of the text in errors.
        is_strict: Whether a text that begins like JSON must be JSON, and not other YAML.

    Raises:
        InvalidFile: The text cannot be parsed; the error names the line.
    """
    try:
        if text.lstrip()[:1] in ("{", "["):
            return _json_with_lines(text, source, is_strict=is_strict)
        return [*_nodes_with_lines(text)]
    except yaml.YAMLError as error:
        raise InvalidFile(_explained(error, text, source)) from error
    except RecursionError:
        detail = f"{source}: the values are nested too deeply; use fewer levels"
        raise InvalidFile(detail) from None


def _json_with_lines(text: str, source: str, *, is_strict: bool) -> list[tuple[object, Lines]]:
    """Return the document in *text*, which is JSON, or else YAML that begins like JSON.

    Raises:
        InvalidFile: The text is neither.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as json_error:
        with suppress(yaml.YAMLError):
            if not is_strict:
                return [*_nodes_with_lines(text)]
        raise InvalidFile(f"{source}:{json_error.lineno}: {json_error.msg}") from json_error
    except ValueError:
        value = None  # An integer is too long for Python; the next line refuses it with its place.
    # JSON may be indented with tabs, which YAML forbids; within its texts there are none.
    [(_, lines)] = _nodes_with_lines(text.replace("\t", " "))
    return [(value, lines)]


def _nodes_with_lines(text: str) -> Iterator[tuple[object, Lines]]:
    loader = _Loader(text)
    while loader.check_node():
        node = loader.get_node()
        if node is not None:
            value: object = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing of the node
            yield value, dict(_lines_of(node, ()))


def _lines_of(node: yaml.Node, path: ValuePath) -> Iterator[tuple[ValuePath, int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            for place, line in _lines_of(value, (*path, str(key.value))):
                # A key names its value, which may begin in the next line.
                yield place, key.start_mark.line + 1 if len(place) == len(path) + 1 else line
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _lines_of(item, (*path, number))


def parse_value(text: str) -> Any:  # Any: as in `Definition`
    """Return the value that *text* stands for in YAML, such as ``3`` or ``[a, b]``, else *text*.

    Raises:
        InvalidFile: The text begins like a list or an object, but is not valid YAML, or is a number
            that is too large.

    >>> parse_value("0 6 * * 1-5")
    '0 6 * * 1-5'
    """
    # Quotes are not needed: a schedule may begin with an asterisk or an at sign.
    if text[:1] not in ("[", "{") and not re.fullmatch(_PLAIN, text):
        return text
    try:
        return yaml.load(text, Loader=_Loader)
    except _NumberError as error:
        raise InvalidFile(str(error.problem)) from error
    except yaml.YAMLError as error:
        detail = f"{text!r} is not valid YAML; write a list as [a, b], an object as {{a: 1}}"
        raise InvalidFile(detail) from error


def definitions_text(definitions: Sequence[Definition], *, allow_unicode: bool = True) -> str:
    """Return YAML from which `parse_definitions` returns *definitions*: a document for each.

    Args:
        definitions: The jobs.
        allow_unicode: Whether characters outside ASCII are written as they are.

    >>> print(definitions_text([{"name": "a", "command": "true", "env": {"SIZE": "1e3"}}]), end="")
    name: a
    command: 'true'
    env:
      SIZE: '1e3'
    """
    return yaml_text(*definitions, allow_unicode=allow_unicode)


def yaml_text(*documents: object, allow_unicode: bool = True) -> str:
    """Return YAML that readers of YAML 1.1 and 1.2 read as *documents*, which are plain values."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=allow_unicode,
        width=_NEVER_FOLDED,
    )


def with_whole_paths(definition: Definition, folder: Path) -> Definition:
    """Return a job in which each relative ``cwd``, its own and its tasks', begins in *folder*.

    The same holds for the folders in the ``path`` of Python functions. A ``cwd`` in a container,
    and a path that begins with ``~``, stays as it is. A malformed definition is not changed either:
    the node reports the error.

    Args:
        definition: A job.
        folder: The folder in which relative paths begin; it is made absolute.

    >>> with_whole_paths({"command": "make", "cwd": "site"}, Path("/srv"))
    {'command': 'make', 'cwd': '/srv/site'}
    """
    whole = definition if definition.get("container") else _in_folder(definition, folder)
    tasks = definition.get("tasks")
    if not isinstance(tasks, list):
        return whole
    return {
        **whole,
        "tasks": [
            _in_folder(cast("Definition", task), folder)
            if isinstance(task, dict) and not _has_container(cast("Definition", task), definition)
            else task
            for task in cast("list[object]", tasks)
        ],
    }


def _in_folder(fields: Definition, folder: Path) -> Definition:
    whole = fields
    cwd, function = fields.get("cwd"), fields.get("python")
    if cwd:
        whole = {**whole, "cwd": _whole(cwd, folder)}
    if isinstance(function, dict):
        call = cast("Definition", function)
        path = call.get("path")
        if isinstance(path, list):
            folders = [_whole(each, folder) for each in cast("list[object]", path)]
            whole = {**whole, "python": {**call, "path": folders}}
    return whole


def _whole(path: object, folder: Path) -> object:
    """Return *path* as absolute; other values than relative paths as they are."""
    if not isinstance(path, str) or not path or path.startswith(("/", "~")):
        return path
    return os.path.abspath(folder / path)


def _has_container(task: Definition, job: Definition) -> bool:
    """Return True if *task* runs in its own container or in that of *job*."""
    if task.get("container") is None and task.get("python") is None and task.get("type") is None:
        return bool(job.get("container"))
    return bool(task.get("container"))


def _documents(text: str, source: str) -> list[Any]:
    try:
        return _parsed(text, source)
    except RecursionError:
        detail = f"{source}: the values are nested too deeply; use fewer levels"
        raise InvalidFile(detail) from None


def _parsed(text: str, source: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        # YAML forbids tabs, with which JSON may be indented, and its errors are less detailed.
        try:
            document = msgspec.json.decode(text)
        except msgspec.DecodeError as json_error:
            try:
                return _read_yaml(text)
            except _NumberError as error:
                raise InvalidFile(_explained(error, text, source)) from error
            except yaml.YAMLError:
                raise InvalidFile(f"{source}: {json_error}") from json_error
        if path := repeated_key(text.encode()):
            raise InvalidFile(f"{source}: {second_key(path)}")
        return [document]
    try:
        return [document for document in _read_yaml(text) if document is not None]
    except yaml.YAMLError as error:
        raise InvalidFile(_explained(error, text, source)) from error


def _read_yaml(text: str) -> list[Any]:
    """Return the documents in *text*.

    The parser in C, where PyYAML has it, takes an eighth of the time. What it refuses is read again
    by the one in Python, whose errors are more detailed, and the same on all machines.
    """
    fast = _fast_loader()
    if fast is not None:
        with suppress(yaml.YAMLError, UnicodeError):
            return list(yaml.load_all(text, Loader=fast))
    return list(yaml.load_all(text, Loader=_Loader))


def _explained(error: yaml.YAMLError, text: str, source: str) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{source}: {error}"
    number = error.problem_mark.line
    lines = text.splitlines()
    line = lines[number].strip() if number < len(lines) else ""
    said = f"{source}:{number + 1}: {error.problem}: {shortened(line)}"
    value = line.partition(":")[2].strip()
    if value.startswith(("*", "@", "%", "`")):
        # A bare asterisk is YAML's reference to an anchor.
        said += f'\n  quote it: {line.partition(":")[0]}: "{value}"'
    return said


class _NumberError(yaml.constructor.ConstructorError):
    """A number is too large, or is none."""


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.1 syntax with the plain values of YAML 1.2."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}
        self._repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; the nodes that references repeat are counted.

        Raises:
            yaml.constructor.ConstructorError: There are too many, or a node has its own reference.
        """
        is_reference = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not is_reference:
            self._sizes[node] = 1 + sum(map(self._size_of, _children_of(node)))
            return node
        self._repeated += self._sizes.get(node, REPEATED_MAX + 1)
        if self._repeated > REPEATED_MAX:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"references to this anchor repeat it in itself, or more than {REPEATED_MAX:,} "
                "values in all; write the values in their place",
                node.start_mark,
            )
        return node

    def compose_document(self) -> yaml.Node | None:
        """Return the next document; its anchors, and the sizes of its nodes, are not kept."""
        document: yaml.Node | None = super().compose_document()
        self._sizes.clear()
        return document

    def _size_of(self, node: yaml.Node) -> int:
        return self._sizes[node]

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return an integer.

        Raises:
            yaml.constructor.ConstructorError: It is not decimal, or has more than
                `NUMBER_DIGITS_MAX` digits.
        """
        digits = self._number_text(node, "int").lstrip("+-")
        if len(digits) > NUMBER_DIGITS_MAX:
            detail = f"the number has {len(digits):,} digits; the limit is {NUMBER_DIGITS_MAX}"
            raise _NumberError(None, None, f"{detail}; quote it if it is a text", node.start_mark)
        return int(node.value)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Return a number.

        Raises:
            yaml.constructor.ConstructorError: It is not decimal, or is larger than all numbers of
                64 bits.
        """
        number = float(self._number_text(node, "float"))
        if math.isinf(number):
            detail = f"the number {shortened(node.value)} is larger than 1.8e308; quote it if it is"
            raise _NumberError(None, None, f"{detail} a text", node.start_mark)
        return number

    def _number_text(self, node: yaml.ScalarNode, kind: str) -> str:
        # A tag in the file, such as !!int, leads to texts and lists here.
        text = str(self.construct_scalar(node))
        if not re.fullmatch(_PLAIN_VALUES[kind], text):
            detail = f"{in_quotes(text)} is not a decimal number; remove the tag"
            raise _NumberError(None, None, detail, node.start_mark)
        return text

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put the members of merged mappings (``<<``) into *node*, unless it has their keys itself.

        Raises:
            yaml.constructor.ConstructorError: A key is not text, or is written twice.
        """
        seen: set[tuple[str, str]] = set()
        for key_node, _ in node.value:
            key = self._key_of(key_node)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not text; quote it", key_node.start_mark
                )
            if (key_node.tag, key) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"there is a second {key!r} here", key_node.start_mark
                )
            seen.add((key_node.tag, key))
        super().flatten_mapping(node)
        # Merged members come first. A mapping that others merge is flattened several times.
        node.value = list({self._key_of(pair[0]): pair for pair in node.value}.values())

    def _key_of(self, node: yaml.Node) -> object:
        if node.tag == _MERGE:
            return node.value
        key: object = self.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing of the node
        return key


@cache
def _fast_loader() -> type[_Loader] | None:
    """Return the loader with the parser in C; None if PyYAML was built without it."""
    if not yaml.__with_libyaml__:
        return None
    from yaml._yaml import CParser

    class FastLoader(_Loader, CParser):
        """A `_Loader` of the events of the parser in C."""

        # The stubs of both parsers have other types.
        check_event: Any = CParser.check_event  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        peek_event: Any = CParser.peek_event
        get_event: Any = CParser.get_event
        dispose: Any = CParser.dispose

        def __init__(self, stream: str) -> None:
            _Loader.__init__(self, "")
            CParser.__init__(self, stream)

    return FastLoader


class _Dumper(yaml.SafeDumper):
    """Writes YAML that `_Loader` reads as it was; a text of several lines is a block."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: equal values are written in each place."""
        return True


def _as_block(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing of the value


def _children_of(node: yaml.Node) -> list[yaml.Node]:
    """Return the nodes directly in *node*: items, or keys and values."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return []


_MERGE = "tag:yaml.org,2002:merge"
_PLAIN_VALUES = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0|[1-9][0-9]*)",
    "float": r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?",
    "null": r"~|null|Null|NULL|",
    "merge": r"<<",
}
_PLAIN = "|".join(f"(?:{pattern})" for pattern in _PLAIN_VALUES.values())
"""A pattern of the texts that stand for other values than themselves."""
_NEVER_FOLDED = 1 << 30
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
_Dumper.add_representer(str, _as_block)
_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern in _PLAIN_VALUES.items():
    _Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]  # its stub says nothing of its arguments
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), None
    )
    _Dumper.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]  # likewise
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), None
    )
