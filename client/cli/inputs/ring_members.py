"""Memberships on the command line: a count, a list, or a file; and changes of a membership.

10                     n1 to n10, each of weight 1
a,b=2,c=0.5:east       by name, with weights and zones
nodes.yaml             a list of {id, weight, zone, state}, YAML or JSON
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from rota.client.definitions import InvalidFile
from rota.core.errors import Problem
from rota.core.model.ids import NodeId
from rota.ring.membership import Member, problems_of_members

NODES_MAX = 10_000
NODE_FORM = "NAME[=WEIGHT][:ZONE]"

_FILE = re.compile(r".*(/|\.ya?ml$|\.json$)", re.DOTALL)
_NODE = re.compile(r"(?P<name>[^=:]+)(?:=(?P<weight>[^:]*))?(?::(?P<zone>.*))?", re.DOTALL)


def read_members(text: str, zone_count: int = 0) -> list[Member]:
    """Return the members that ``--nodes`` names.

    Args:
        text: A count, a list, or the name of a file, which has a slash or a known ending.
        zone_count: The number of zones, z1, z2, ..., over which a count of nodes is distributed; 0
            for no zones.

    Raises:
        click.UsageError: *text* has invalid members, or *zone_count* is given without a count.
        InvalidFile: The file cannot be read, or its members are invalid.
    """
    if text.isascii() and text.isdecimal():
        return _counted(int(text), zone_count)
    if zone_count:
        raise click.UsageError(
            "--zones needs a number of nodes, as in --nodes 6; in a list write NAME:ZONE, in a "
            "file give each node its zone"
        )
    if _FILE.fullmatch(text):
        return _read_file(Path(text))
    return checked([parse_member(each) for each in text.split(",")])


def parse_member(text: str) -> Member:
    """Return the member of the form ``NAME[=WEIGHT][:ZONE]``.

    Raises:
        click.UsageError: *text* is not of that form.
    """
    found = _NODE.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"{text!r} is not {NODE_FORM}, as in n1, n1=0.5 or n1=2:east")
    weight = 1.0 if found["weight"] is None else parse_weight(text, found["weight"])
    return Member(id=NodeId(found["name"]), weight=weight, zone=found["zone"] or "")


def parse_weight(text: str, weight: str) -> float:
    """Return *weight* as a number; *text*, of which it is a part, is named in the error.

    Raises:
        click.UsageError: *weight* is not a number.
    """
    try:
        return float(weight)
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {weight!r} is not a weight such as 0.5 or 2") from error


def changed(
    members: Sequence[Member],
    *,
    add: Iterable[str],
    remove: Iterable[str],
    weights: Iterable[str],
) -> list[Member]:
    """Return a membership with nodes added, removed and with new weights.

    Raises:
        click.UsageError: A change cannot be made, or the result is invalid.
    """
    by_id = {member.id: member for member in members}
    for name in remove:
        _known(by_id, name)
        del by_id[NodeId(name)]
    for text in weights:
        name, _, weight = text.partition("=")
        before = _known(by_id, name)
        by_id[before.id] = msgspec.structs.replace(before, weight=parse_weight(text, weight))
    return checked([*by_id.values(), *map(parse_member, add)])


def checked(members: list[Member]) -> list[Member]:
    """Return *members* after a check.

    Raises:
        click.UsageError: A member is invalid.
    """
    problems = problems_of_members(members)
    if problems:
        raise click.UsageError("; ".join(_text_of(members, each) for each in problems))
    return members


def _known(by_id: dict[NodeId, Member], name: str) -> Member:
    member = by_id.get(NodeId(name))
    if member is None:
        names = ", ".join(list(by_id)[:10]) + (", ..." if len(by_id) > 10 else "")
        raise click.UsageError(f"there is no node {name!r}; the nodes are: {names}")
    return member


def _counted(count: int, zone_count: int) -> list[Member]:
    if not 1 <= count <= NODES_MAX:
        raise click.UsageError(f"--nodes {count} is out of range; use from 1 to {NODES_MAX}")
    return [
        Member(
            id=NodeId(f"n{number}"), zone=f"z{1 + (number - 1) % zone_count}" if zone_count else ""
        )
        for number in range(1, count + 1)
    ]


def _read_file(path: Path) -> list[Member]:
    try:
        members = msgspec.yaml.decode(path.read_bytes(), type=list[Member])
    except OSError as error:
        raise InvalidFile(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InvalidFile(f"{path}: {error}") from error
    problems = problems_of_members(members)
    if problems:
        raise InvalidFile(f"{path}: " + "; ".join(_text_of(members, each) for each in problems))
    return members


def _text_of(members: Sequence[Member], problem: Problem) -> str:
    number = int(problem.pointer.split("/")[1])
    return f"node {members[number].id!r}: {problem.detail}"
