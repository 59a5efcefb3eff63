"""``rota keyring``: the keys that encrypt secrets, in a file that is copied to all nodes."""

import os
from pathlib import Path

import click

from rota.client.cli.display.printing import say
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import connect, examples, url_option
from rota.core.errors import RotaError
from rota.wire.key_rings import (
    KEY_BYTES,
    KEYS_MAX,
    KeyRing,
    KeyRingInvalid,
    content_of,
    id_of,
    read_key_ring,
    ring_of,
)

file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
EX_LEFT = 1


class KeyRingRefused(RotaError):
    """The change of a key ring is refused; nothing was changed."""

    code = "invalid_key_ring"


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota keyring init keyring",
        "rota keyring add keyring",
        "rota keyring use keyring k3f2a9c00",
        "rota keyring rewrap",
        "rota keyring status",
        "rota keyring remove keyring k91ab77e4",
    ),
)
@output_before
def keyring() -> None:
    """Make and change the keys of secrets.

    A key ring is a file (mode 0600) that all nodes have; the setting keyring is its path. A key is
    replaced in four steps: add, copy the file to all nodes, use, copy it, rewrap, remove, copy it.
    Nodes notice a changed file within seconds.
    """


@keyring.command(
    "init", short_help="Make a key ring.", epilog=examples("rota keyring init keyring")
)
@file_argument
def init(file: Path) -> None:
    """Make a key ring with one key in a new FILE.

    Keep a copy apart from the backups of the data: without the file, no secret can be decrypted.
    """
    if file.exists():
        raise KeyRingRefused(f"{file} exists; choose another name, or `rota keyring add {file}`")
    key = os.urandom(KEY_BYTES)
    _write(file, ring_of(key))
    say(f"made {file} with the key {id_of(key)}: copy it to all nodes, and set keyring to its path")


@keyring.command(
    "add",
    short_help="Add a key, which is not in use yet.",
    epilog=examples("rota keyring add keyring"),
)
@file_argument
def add(file: Path) -> None:
    """Add a new key to FILE.

    All nodes need the key before one uses it: copy the file to all of them first.
    """
    ring, key = _read(file), os.urandom(KEY_BYTES)
    if len(ring.keys) >= KEYS_MAX:
        raise KeyRingRefused(f"{file} has {KEYS_MAX} keys, the most; remove one first")
    _write(file, KeyRing(ring.in_use, {**ring.keys, id_of(key): key}))
    say(f"added the key {id_of(key)}: copy {file} to all nodes, then")
    say(f"`rota keyring use {file} {id_of(key)}`")


@keyring.command(
    "use",
    short_help="Choose the key that encrypts.",
    epilog=examples("rota keyring use keyring k3f2a9c00"),
)
@file_argument
@click.argument("key_id", metavar="KEY")
def use(file: Path, key_id: str) -> None:
    """Choose the KEY in FILE that encrypts from now on; all of its keys decrypt."""
    ring = _read(file)
    _check_held(ring, key_id, file)
    _write(file, KeyRing(key_id, ring.keys))
    say(f"{key_id} is in use in {file}: copy it to all nodes, then `rota keyring rewrap`")


@keyring.command(
    "remove",
    short_help="Remove a key that no secret needs.",
    epilog=examples("rota keyring remove keyring k91ab77e4"),
)
@file_argument
@click.argument("key_id", metavar="KEY")
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Ask no node whether secrets need the key. Such secrets are then lost.",
)
@url_option
def remove(file: Path, key_id: str, *, is_forced: bool) -> None:
    """Remove a KEY from FILE, if no secret of the cluster is encrypted with it."""
    ring = _read(file)
    _check_held(ring, key_id, file)
    if key_id == ring.in_use:
        raise KeyRingRefused(f"{key_id} is in use in {file}; use another key first")
    if not is_forced:
        with connect() as client:
            count = client.key_ring().secrets_by_key.get(key_id, 0)
        if count:
            raise KeyRingRefused(
                f"{count} secrets are encrypted with {key_id}: run `rota keyring rewrap` first"
            )
    kept = {name: key for name, key in ring.keys.items() if name != key_id}
    _write(file, KeyRing(ring.in_use, kept))
    say(f"removed the key {key_id} from {file}: copy it to all nodes")


@keyring.command(
    "rewrap",
    short_help="Encrypt all secrets for the key in use.",
    epilog=examples("rota keyring rewrap"),
)
@url_option
@click.pass_context
def rewrap(ctx: click.Context) -> None:
    """Encrypt the data key of each secret with the key in use of the node that responds.

    Values do not change, and jobs can run meanwhile. The exit status is 1 if some secrets could not
    be changed; the log of the node has the reasons.
    """
    with connect() as client:
        result = client.rewrap_secrets()
    say(f"{result.changed} secrets are now encrypted with {result.in_use}")
    if result.failed_count:
        say(f"{result.failed_count} could not be changed: {', '.join(result.failed)}")
        ctx.exit(EX_LEFT)


@keyring.command(
    "status",
    short_help="Show the keys of a node, and their secrets.",
    epilog=examples("rota keyring status", "rota keyring status --profile work"),
)
@url_option
def status() -> None:
    """Show the ids of the keys that the node has, and how many secrets need each."""
    with connect() as client:
        found = client.key_ring()
    say(f"node {found.node}")
    for key_id in sorted({*found.keys, *found.secrets_by_key}):
        facts = [f"{found.secrets_by_key.get(key_id, 0)} secrets"]
        facts += ["in use"] if key_id == found.in_use else []
        facts += [] if key_id in found.keys else ["MISSING on this node"]
        say(f"{key_id}  {', '.join(facts)}")
    if not found.keys:
        say("the node has no key ring: set keyring to the path of one")


def _read(file: Path) -> KeyRing:
    try:
        return read_key_ring(file)
    except KeyRingInvalid as error:
        raise KeyRingRefused(str(error)) from error


def _check_held(ring: KeyRing, key_id: str, file: Path) -> None:
    if key_id not in ring.keys:
        raise KeyRingRefused(f"{file} has no key {key_id}; it has {', '.join(ring.keys)}")


def _write(file: Path, ring: KeyRing) -> None:
    """Replace the file as a whole, so that no reader finds a part of it.

    Raises:
        KeyRingRefused: The file cannot be written.
    """
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as opened:
                opened.write(content_of(ring))
                opened.flush()
                os.fsync(opened.fileno())
            fresh.replace(file)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise KeyRingRefused(f"{file} cannot be written: {error.strerror}") from error
