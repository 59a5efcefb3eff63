"""What a node is told: defaults < file < ``ROTA_*`` < flags, checked whole, once, at the start.

Every setting has one name: ``data_dir`` in the file, ``ROTA_DATA_DIR`` in the environment,
``--data-dir`` on the command line. All problems are reported together.
"""

import os
import re
import socket
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from rota.core.errors import Problem, invalid
from rota.core.ids import NAME_RULE, NodeId, is_name
from rota.core.instants import (
    DAY,
    MILLISECOND,
    MINUTE,
    SECOND,
    Duration,
    format_duration,
    parse_duration,
)
from rota.ring.membership import WEIGHT_MAX
from rota.ring.placement import SHARD_COUNT_MAX


class Address(NamedTuple):
    """Where to listen or be found; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_specific(self) -> bool:
        """Whether it can be told to others as it is."""
        return bool(self.port) and self.host not in ("0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a node.

    Attributes:
        data_dir: Where everything durable is.
        listen: Where the API listens. Loopback, because there is no authentication yet.
        peer_listen: Where other nodes connect; not used by a node that is alone.
        advertise: Where others reach the API of this node; empty for *listen*; ``auto``: at the
            address from which it reaches etcd.
        peer_advertise: Where other nodes reach it; empty for *peer_listen*; ``auto`` likewise.
        etcd: Endpoints; empty for a node that is alone.
        etcd_user: User of etcd that the node is; empty: etcd does not authenticate.
        etcd_password_file: File with that user's password. A file, because command lines and
            environments can be read by others; read for every token, so it may be replaced.
        etcd_ca: Authority that signed etcd's certificates, in PEM; None: those of the system.
        etcd_cert: Certificate of this node, if etcd wants one.
        etcd_key: Key of that certificate.
        cluster: Name of the cluster.
        node_id: Permanent name of this node.
        zone: Failure domain of this node.
        weight: How much it is to hold, relative to other nodes. 1: all hold the same.
        labels: For placement.
        shards: Into how many shards a new data directory is divided; a power of two. 256 costs a
            node alone nothing that can be measured, and is enough for 85 nodes with three replicas
            each; see docs/decisions/0003.
        replicas: Copies of each shard. 3: two may be lost at once.
        min_sync: Copies that have to have a write before anybody is told. 2: of what was
            acknowledged one copy is left, whichever node dies.
        session_ttl: After so long without word from a node etcd says that it is gone. 5 s: four
            renewals may be lost.
        peer_lease: How long a primary may act without etcd after a backup has answered. 2 s: as
            for the session, and less, so that a dead process costs less than a lost machine.
        attempt_lease: How long attempts go on without a word of their node, or of their shard's
            primary. 15 s: several restarts of a node, or a takeover, and not long for a task that
            should be running elsewhere.
        clock_skew_max: A node whose calendar differs by more from those of most nodes fires
            nothing. 500 ms: far more than NTP leaves, and little enough for a calendar.
        repair_delay: How long a node is waited for before its copies are made anew elsewhere. 5
            min: a machine restarts in less, and to copy its data costs more than that.
        stand_in_after: After how long without a primary that can commit a copy's node fires its
            available jobs by itself. 10 s: longer than a takeover takes, or each would begin
            things twice; and no longer than the usual grace, so that it misses nothing.
        decide_ahead: How long before it is due a fire is decided, if nothing stands in its way, so
            that its start is committed on all copies by then. 25 ms: more than a commit takes on
            most machines, and little enough for a pause or a change to come in time.
        slots: Attempts that may run at the same time. 64: more than two cores can use, so that
            waiting tasks do not keep others out; lower it for heavy tasks.
        executions_max: Unfinished executions that one shard may hold. 10,000: some 20 MB.
        history: How long finished executions and the ledger are kept.
        drain: How long a stopping node waits for the attempts that it is going to end.
        on_stop: ``keep``: attempts go on under the warden while the node is away. ``end``: they are
            ended when it stops. ``keep``, so that a restart or an upgrade interrupts nothing.
        disk_reserve_mb: Requests are refused while less than this is free on the data directory's
            disk. 256: several seconds of writing at full speed, for the node looks 4 times a
            second.
        body_max_mb: Largest request body.
        sandbox_tmp_mb: Size of ``/tmp``, and of ``/dev/shm``, in each sandbox. 256: it is memory,
            and at most ``slots`` sandboxes have it at once.
        container_memory_mb: Of a container whose task has no limit of memory; 0 for no limit.
            2,048: one task that leaks does not take the machine along.
        container_pids: Processes of a container whose task has no limit of them; 0 for no limit.
            1,024: more than programs need, and fewer than a fork bomb.
        connections_max: Connections to the API; one more is closed at once. 8,192: some 200 MB.
        connections_per_address_max: Likewise of one address. Half of all, so that no single client
            keeps the others out, and a balancer, whose address all its clients have, seldom needs
            more.
        allowed_hosts: Names under which the API is reached, beside addresses, ``localhost`` and
            those of *listen* and *advertise*; ``*.x`` for all below ``x``. None: a name that anyone
            may point here is what DNS rebinding needs.
        allowed_origins: Origins whose pages may change something, beside this node's own.
        await_recovery: Start with the data of a cluster that etcd does not know, and wait for a
            recovery. Off: an etcd without the cluster may be the wrong one.
        insecure: Listen beyond loopback without authentication.
        log_level: ``debug``, ``info``, ``warning`` or ``error``.
        access_log: Which answers have a line in the log: ``off``, ``errors`` (400 and above) or
            ``all``. ``errors``: what somebody will ask about, and next to nothing at full load.
    """

    data_dir: Path = Path("rota-data")
    listen: Address = Address("127.0.0.1", 7400)
    peer_listen: Address = Address("127.0.0.1", 7401)
    advertise: str = ""
    peer_advertise: str = ""
    etcd: tuple[str, ...] = ()
    etcd_user: str = ""
    etcd_password_file: Path | None = None
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    cluster: str = "default"
    node_id: NodeId = NodeId("")
    zone: str = ""
    weight: float = 1.0
    labels: dict[str, str] = {}
    shards: int = 256
    replicas: int = 3
    min_sync: int = 2
    session_ttl: Duration = Duration(5 * SECOND)
    peer_lease: Duration = Duration(2 * SECOND)
    attempt_lease: Duration = Duration(15 * SECOND)
    clock_skew_max: Duration = Duration(500 * MILLISECOND)
    repair_delay: Duration = Duration(5 * MINUTE)
    stand_in_after: Duration = Duration(10 * SECOND)
    decide_ahead: Duration = Duration(25 * MILLISECOND)
    slots: int = 64
    executions_max: int = 10_000
    history: Duration = Duration(7 * DAY)
    drain: Duration = Duration(5 * SECOND)
    on_stop: str = "keep"
    disk_reserve_mb: int = 256
    body_max_mb: int = 4
    sandbox_tmp_mb: int = 256
    container_memory_mb: int = 2048
    container_pids: int = 1024
    connections_max: int = 8_192
    connections_per_address_max: int = 4_096
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    await_recovery: bool = False
    insecure: bool = False
    log_level: str = "info"
    access_log: str = "errors"

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names under which the API is reached, beside addresses and ``localhost``."""
        told = self.advertise.rpartition(":")[0].strip("[]")
        own = (self.listen.host, told)
        # The final dot of a name, usual in Kubernetes, is not sent as part of Host.
        return (*self.allowed_hosts, *(name.lower().removesuffix(".") for name in own))

    @property
    def ends_attempts(self) -> bool:
        """Whether attempts end when the node stops.

        They do whatever is wanted with the first process of a container, for its end takes all
        others with it.
        """
        return self.on_stop == "end" or os.getpid() == 1


ATTEMPT_LEASE_MIN = Duration(SECOND)
AUTO = "auto"
"""An advertised address that the node finds by itself (`rota.node.own_address`)."""

_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
"""A name for ``allowed_hosts``."""

_LINK = re.compile(r"ROTA(_\w+)?_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?")
"""What Kubernetes puts into every pod's environment for a Service called rota."""

Raw = Mapping[str, object]
"""Settings as found: text, numbers, truth values, lists or tables."""


def load_config(file: Path | None, environ: Mapping[str, str], flags: Raw) -> NodeConfig:
    """Return the settings that *file*, *environ* and *flags* give, the later winning.

    Raises:
        Refused: Code ``invalid_configuration``, with every problem: where it is, what it is.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[str, object]] = {}
    for source, raw in (
        (f"{file}", _read_file(file, problems)),
        ("environment", _from_environment(environ)),
        ("command line", flags),
    ):
        for name, value in raw.items():
            if name in PARSERS:
                found[name] = (source, value)
            else:
                problems.append(Problem(f"{source}: {name}", _unknown(name)))
    settings = _parse(found, problems)
    # What could not be read keeps its default, so that contradictions in the rest are told too.
    config = _with_node_id(NodeConfig(**settings))  # type: ignore[arg-type]  # each parser gives its field's type
    problems += _contradictions(config)
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise invalid("invalid_configuration", f"the configuration is wrong:\n{listed}", *problems)
    return config


def _read_file(file: Path | None, problems: list[Problem]) -> Raw:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        problems.append(Problem(f"{file}", f"cannot be read: {error.strerror}"))
    except (ValueError, RecursionError) as error:
        problems.append(Problem(f"{file}", f"is not TOML: {error}"))
    return {}


def _from_environment(environ: Mapping[str, str]) -> Raw:
    """Return the settings among ``ROTA_*``; what an attempt is given is not a setting."""
    return {
        name.removeprefix("ROTA_").lower(): value
        for name, value in environ.items()
        if name.startswith("ROTA_") and name not in NOT_SETTINGS and not _LINK.fullmatch(name)
    }


def _unknown(name: str) -> str:
    close = get_close_matches(name, PARSERS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(PARSERS)}"
    return f"no such setting; {hint}"


def _parse(found: Mapping[str, tuple[str, object]], problems: list[Problem]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for name, (source, value) in found.items():
        try:
            settings[name] = PARSERS[name](value)
        except ValueError as error:
            problems.append(Problem(f"{source}: {name}", str(error)))
    return settings


def _with_node_id(config: NodeConfig) -> NodeConfig:
    if config.node_id:
        return config
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-._")
    return msgspec.structs.replace(config, node_id=NodeId(host or "node"))


def _contradictions(config: NodeConfig) -> list[Problem]:
    problems: list[Problem] = []
    listening = {"listen": config.listen}
    if config.etcd:
        listening["peer_listen"] = config.peer_listen
    for name, address in listening.items():
        if not address.is_loopback and not config.insecure:
            problems.append(
                Problem(
                    name,
                    f"{address} can be reached from other machines and there is no authentication "
                    "yet: anyone there could run commands here. Listen on 127.0.0.1, or say "
                    "--insecure where the network keeps strangers out",
                )
            )
    if config.etcd:
        problems += _unreachable("listen", config.listen, "advertise", config.advertise)
        problems += _unreachable(
            "peer_listen", config.peer_listen, "peer_advertise", config.peer_advertise
        )
    problems += _contradictions_about_etcd(config)
    if config.attempt_lease < ATTEMPT_LEASE_MIN:
        problems.append(
            Problem(
                "attempt_lease",
                f"{format_duration(config.attempt_lease)} is too short: a node under load, or a "
                f"restart, takes longer; at least {format_duration(ATTEMPT_LEASE_MIN)}",
            )
        )
    if config.shards & (config.shards - 1):
        problems.append(Problem("shards", f"{config.shards} is not a power of two"))
    if config.min_sync > config.replicas:
        problems.append(
            Problem("min_sync", f"{config.min_sync} is more than the {config.replicas} replicas")
        )
    return problems


def _contradictions_about_etcd(config: NodeConfig) -> list[Problem]:
    """Return which settings for etcd lack what they need."""
    has_tls = any(url.startswith("https:") for url in config.etcd)
    needed = (
        ("etcd_user", config.etcd_user, "etcd_password_file", config.etcd_password_file),
        ("etcd_password_file", config.etcd_password_file, "etcd_user", config.etcd_user),
        ("etcd_user", config.etcd_user, "etcd", config.etcd),
        ("etcd_cert", config.etcd_cert, "etcd_key", config.etcd_key),
        ("etcd_key", config.etcd_key, "etcd_cert", config.etcd_cert),
        ("etcd_ca", config.etcd_ca, "an https:// URL in etcd", has_tls),
        ("etcd_cert", config.etcd_cert, "an https:// URL in etcd", has_tls),
    )
    return [
        Problem(name, f"has no effect without {other}: set that too, or neither")
        for name, value, other, other_value in needed
        if value and not other_value
    ]


def _unreachable(name: str, listen: Address, advertise: str, told: str) -> list[Problem]:
    """Return what keeps others from reaching a node at the address that it would tell them."""
    if told == AUTO and listen.is_loopback and listen.port:
        return [
            Problem(
                name,
                f"{listen} is reached from this machine alone, and {advertise} is {AUTO!r}: "
                f"listen on 0.0.0.0:{listen.port}, or set {advertise}",
            )
        ]
    if listen.is_specific or (listen.port if told == AUTO else told):
        return []
    return [
        Problem(
            name,
            f"{listen} tells other nodes no address; name one with {advertise}, or have it found: "
            f'{advertise} = "{AUTO}", and a port here',
        )
    ]


# -- one parser for each setting ------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not text")
    return value


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if not _text(value):
        raise ValueError("is empty; name a directory")
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value!r} is in the home of nobody") from error


def _path_or_none(value: object) -> Path | None:
    return _path(value) if value else None


def _name(value: object) -> str:
    if not is_name(_text(value)):
        raise ValueError(f"{value!r} is not a name: {NAME_RULE}")
    return _text(value)


def _zone(value: object) -> str:
    return _name(value) if value else ""


def _address(value: object) -> Address:
    host, colon, port = _text(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{value!r} is not HOST:PORT, for example 127.0.0.1:7400")
    return Address(host, int(port))


def _advertised(value: object) -> str:
    if not value or value == AUTO:
        return str(value or "")
    return str(_address(value))


def _urls(value: object) -> tuple[str, ...]:
    urls = tuple(_text(url).strip() for url in _items(value) if url)
    wrong = [url for url in urls if not re.fullmatch(r"https?://[^/\s]+/?", url)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not a URL such as http://127.0.0.1:2379")
    return urls


def _hosts(value: object) -> tuple[str, ...]:
    hosts = tuple(_text(each).strip().lower().removesuffix(".") for each in _items(value) if each)
    wrong = [each for each in hosts if not _HOST.fullmatch(each)]
    if wrong:
        raise ValueError(
            f"{wrong[0]!r} is not a name such as rota.example.org or *.example.org, without a port"
        )
    return hosts


def _origins(value: object) -> tuple[str, ...]:
    origins = tuple(_text(each).strip().lower() for each in _items(value) if each)
    wrong = [each for each in origins if not re.fullmatch(r"https?://[^/\s*]+", each)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not an origin such as https://rota.example.org")
    return origins


def _labels(value: object) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in _items(value):
        key, equals, label = _text(pair).partition("=")
        if not equals or not is_name(key):
            raise ValueError(f"{pair!r} is not KEY=VALUE")
        labels[key] = label
    return labels


def _items(value: object) -> Sequence[object]:
    """Return the items of a list, of a table (as ``key=value``) or of text with commas."""
    if isinstance(value, (list, tuple)):
        return cast("Sequence[object]", value)  # isinstance cannot say of what; each is checked
    if isinstance(value, dict):
        table = cast("Mapping[object, object]", value)  # likewise
        return [f"{key}={item}" for key, item in table.items()]
    return _text(value).split(",")


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    known = words.get(_text(value).lower())
    if known is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return known


def _count(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{value!r} is not a whole number")
        if not low <= value <= high:
            raise ValueError(f"{value} is out of range; it goes from {low} to {high}")
        return value

    return parse


def _weight(value: object) -> float:
    try:
        weight = float(_text(value)) if isinstance(value, str) else value
    except ValueError:
        weight = None
    if not isinstance(weight, (int, float)) or isinstance(weight, bool):
        raise ValueError(f"{value!r} is not a number")
    if not 0 <= weight <= WEIGHT_MAX:
        raise ValueError(f"{value} is out of range; it goes from 0 to {WEIGHT_MAX:g}")
    return float(weight)


def _timespan(low: Duration, high: Duration) -> Callable[[object], Duration]:
    def parse(value: object) -> Duration:
        duration = _duration(value)
        if not low <= duration <= high:
            raise ValueError(
                f"{format_duration(duration)} is out of range; it goes from "
                f"{format_duration(low)} to {format_duration(high)}"
            )
        return duration

    return parse


def _duration(value: object) -> Duration:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return parse_duration(f"{value}s")
    text = _text(value)
    return parse_duration(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)


def _one_of(*words: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)

    return parse


PARSERS: Mapping[str, Callable[[object], object]] = {
    "data_dir": _path,
    "listen": _address,
    "peer_listen": _address,
    "advertise": _advertised,
    "peer_advertise": _advertised,
    "etcd": _urls,
    "etcd_user": _text,
    "etcd_password_file": _path_or_none,
    "etcd_ca": _path_or_none,
    "etcd_cert": _path_or_none,
    "etcd_key": _path_or_none,
    "cluster": _name,
    "node_id": _name,
    "zone": _zone,
    "weight": _weight,
    "labels": _labels,
    "shards": _count(1, SHARD_COUNT_MAX),
    "replicas": _count(2, 9),
    "min_sync": _count(2, 9),
    "session_ttl": _timespan(SECOND, MINUTE),
    "peer_lease": _timespan(Duration(200 * MILLISECOND), MINUTE),
    "attempt_lease": _timespan(SECOND, DAY),
    "clock_skew_max": _timespan(Duration(50 * MILLISECOND), DAY),
    "repair_delay": _timespan(SECOND, Duration(30 * DAY)),
    "stand_in_after": _timespan(Duration(3 * SECOND), Duration(30 * DAY)),
    "decide_ahead": _timespan(Duration(0), SECOND),
    "slots": _count(1, 100_000),
    "executions_max": _count(1, 10_000_000),
    "history": _duration,
    "drain": _duration,
    "on_stop": _one_of("keep", "end"),
    "disk_reserve_mb": _count(0, 1_000_000),
    "body_max_mb": _count(1, 1_000),
    "sandbox_tmp_mb": _count(1, 1 << 20),
    "container_memory_mb": _count(0, 1 << 20),
    "container_pids": _count(0, 1 << 22),
    "connections_max": _count(1, 1_000_000),
    "connections_per_address_max": _count(1, 1_000_000),
    "allowed_hosts": _hosts,
    "allowed_origins": _origins,
    "await_recovery": _truth,
    "insecure": _truth,
    "log_level": _one_of("debug", "info", "warning", "error"),
    "access_log": _one_of("off", "errors", "all"),
}

NOT_SETTINGS = frozenset(
    {
        "ROTA_CONFIG",
        "ROTA_URL",
        "ROTA_CLIENT_CONFIG",
        "ROTA_NAMESPACE",
        "ROTA_OUTPUT",
        "ROTA_PROFILE",
        "ROTA_TIMEOUT",
        "ROTA_EXECUTION_ID",
        "ROTA_TASK",
        "ROTA_ATTEMPT",
        "ROTA_TOKEN",
        "ROTA_IDEMPOTENCY_KEY",
        "ROTA_FIRE_TIME",
        "ROTA_STORE_ID",
        "ROTA_PARAMETERS",
    }
)
"""Variables that mean something else: the client's, and those that attempts are given."""
