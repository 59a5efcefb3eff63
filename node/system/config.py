"""Settings of a node: defaults < file < ``ROTA_*`` < flags, all checked together at the start.

`NodeConfig` is the table of settings. Flags, variables, keys of the file, ``--help`` and the tables
of docs/reference/configuration.md follow from it. A setting has one name: ``data_dir`` in the file,
``ROTA_DATA_DIR`` in the environment, ``--data-dir`` on the command line. All problems are reported
together.
"""

import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rota.core.errors import Problem, invalid
from rota.core.model.certificate_names import node_uri
from rota.core.model.ids import NodeId
from rota.core.timing.instants import DAY, MILLISECOND, MINUTE, SECOND, Duration
from rota.executor.launch.task_users import why_not_as_others
from rota.node.system import config_values as kinds
from rota.node.system.bootstrap_key import read_bootstrap_key
from rota.node.system.tls_files import (
    TlsFiles,
    TlsFilesInvalid,
    check_authority,
    check_files,
    problem_with,
)
from rota.node.system.webhook_keys import read_webhook_keys
from rota.ring.membership import WEIGHT_MAX
from rota.ring.placement import SHARD_COUNT_MAX
from rota.wire.key_rings import KeyRingInvalid, read_key_ring

T = TypeVar("T")
Raw = Mapping[str, object]
"""Settings as found: text, numbers, truth values, lists or tables."""


@dataclass(frozen=True)
class Group:
    """Settings of one subject, under one heading of the reference."""

    heading: str

    def setting(
        self, default: T, values: kinds.Values[T], meaning: str, *, unset: str = "", flag: str = ""
    ) -> T:
        """Return a field of `NodeConfig`; see `Setting` for the arguments."""
        shown = "" if default in (None, "", (), {}) else values.show(default)
        row = Setting("", self, values, meaning, shown, unset, flag)
        return field(default_factory=partial(copy, default), metadata={Setting: row})


@dataclass(frozen=True)
class Setting:
    """A row of the table of settings.

    Attributes:
        name: The name of the setting in the file and in `NodeConfig`.
        group: The subject of the setting.
        values: The values that the setting may have; Any, because each row has another type.
        meaning: The meaning of the setting, in one sentence.
        default: The default, as text that the parser reads; empty if there is none.
        unset: A description of what the node uses if the setting has no value; empty for nothing.
        flag: The flag of the setting.
    """

    name: str
    group: Group
    values: kinds.Values[Any]
    meaning: str
    default: str
    unset: str
    flag: str

    @property
    def variable(self) -> str:
        """The name of the setting in the environment."""
        return f"ROTA_{self.name.upper()}"


NODE = Group("The node")
ADDRESSES = Group("Addresses")
ACCESS = Group("Access")
TLS = Group("TLS")
ETCD = Group("etcd")
CLUSTER = Group("The cluster")
TIMING = Group("Fires and repair")
ATTEMPTS = Group("Attempts")
STORAGE = Group("Storage")
API = Group("The API")
WEBHOOKS = Group("Webhooks")
LOG = Group("The log")


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The settings of a node. Comments give the reasons for defaults."""

    # fmt: off
    data_dir: Path = NODE.setting(
        Path("rota-data"), kinds.DIRECTORY, "Directory of all durable data.")
    node_id: NodeId = NODE.setting(
        NodeId(""), kinds.NODE_NAME, "Permanent name of this node.", unset="the host's name")
    zone: str = NODE.setting("", kinds.NAME_OR_EMPTY, "Failure domain of this node.")
    # All nodes hold the same.
    weight: float = NODE.setting(
        1.0, kinds.number(0, WEIGHT_MAX), "Share of the data, relative to other nodes.")
    labels: dict[str, str] = NODE.setting(
        {}, kinds.LABELS, "Labels of this node, for the placement of tasks.", flag="--label")

    # Loopback, because tokens would be sent without encryption.
    listen: kinds.Address = ADDRESSES.setting(
        kinds.Address("127.0.0.1", 7400), kinds.ADDRESS, "Address of the API.")
    peer_listen: kinds.Address = ADDRESSES.setting(kinds.Address("127.0.0.1", 7401), kinds.ADDRESS,
        "Address for connections from other nodes; not used by a node alone.")
    advertise: str = ADDRESSES.setting("", kinds.ADVERTISED,
        "Address of the API for clients, as `rota cluster status` shows it.",
        unset="the value of `listen`")
    peer_advertise: str = ADDRESSES.setting("", kinds.ADVERTISED,
        "Address of this node for other nodes.", unset="the value of `peer_listen`")
    insecure: bool = ADDRESSES.setting(
        False, kinds.TRUTH, "Listen beyond loopback without encryption or authentication.")

    # A node that anybody can reach must not run anybody's commands because a setting was forgotten.
    auth: str = ACCESS.setting("keys", kinds.one_of("keys", "observe", "open"),
        "Whether requests need a key; `observe` only logs what would be refused, and `open` gives "
        "every request all rights.")
    # A file, because other programs can read command lines and environments.
    bootstrap_key_file: Path | None = ACCESS.setting(None, kinds.FILE,
        "File with the token of the cluster's first key.", unset="`rota auth init` creates the key")
    unknown_namespaces: str = ACCESS.setting("accept", kinds.one_of("accept", "refuse"),
        "Whether jobs may be saved in namespaces that have no document.")
    # Open: on a node of one team, tasks are programs of its user.
    default_policy: str = ACCESS.setting("open", kinds.one_of("open", "strict"),
        "Policy of namespaces without one; `strict` allows commands in sandboxes, and containers.")
    # Off: the clients of one team need not be limited against each other.
    principal_rate: int = ACCESS.setting(0, kinds.count(0, 1_000_000, note="0: no limit"),
        "Requests a second of one principal to this node; more are refused with 429.")
    # A file that is never sent: a reader of etcd or of a data directory must not have the keys.
    keyring: Path | None = ACCESS.setting(None, kinds.FILE,
        "File with the keys that encrypt secrets, mode 0600; see `rota keyring`.",
        unset="no secrets")

    tls_cert: Path | None = TLS.setting(None, kinds.FILE,
        "Certificate of the API, in PEM, with those between it and its authority.",
        unset="the API without TLS")
    tls_key: Path | None = TLS.setting(None, kinds.FILE, "Key of `tls_cert`, in PEM.")
    tls_ca: Path | None = TLS.setting(None, kinds.FILE,
        "Certificate of the authority of `tls_cert`, in PEM, which tasks get as `ROTA_CA`.",
        unset="`peer_ca` if `tls_cert` is `peer_cert`, otherwise those of the system")
    tls_client_ca: Path | None = TLS.setting(None, kinds.FILE,
        "Certificate of the authority of clients' certificates, in PEM.",
        unset="clients have no certificates")
    peer_cert: Path | None = TLS.setting(None, kinds.FILE,
        "Certificate of this node for connections between nodes, in PEM; see `rota certs`.",
        unset="connections between nodes without TLS")
    peer_key: Path | None = TLS.setting(None, kinds.FILE, "Key of `peer_cert`, in PEM.")
    peer_ca: Path | None = TLS.setting(
        None, kinds.FILE, "Certificate of the authority that signed those of all nodes, in PEM.")
    # Plain connections are no default: they are for a cluster that changes to TLS.
    peer_tls: str = TLS.setting("require", kinds.one_of("require", "accept"),
        "Connections between nodes: with TLS only, or also without while a cluster changes.")

    etcd: tuple[str, ...] = ETCD.setting(
        (), kinds.URLS, "Endpoints of etcd.", unset="none; the node is alone")
    etcd_user: str = ETCD.setting(
        "", kinds.TEXT, "User of this node in etcd.", unset="no authentication")
    # A file, because other programs can read command lines and environments.
    etcd_password_file: Path | None = ETCD.setting(
        None, kinds.FILE, "File with that user's password on the first line.")
    etcd_ca: Path | None = ETCD.setting(None, kinds.FILE,
        "Certificate, in PEM, of the authority that signed etcd's.", unset="those of the system")
    etcd_cert: Path | None = ETCD.setting(
        None, kinds.FILE, "Certificate of this node, in PEM, if etcd requires one.")
    etcd_key: Path | None = ETCD.setting(None, kinds.FILE, "Key of that certificate, in PEM.")
    # An etcd without a record of the cluster may be the wrong one.
    await_recovery: bool = ETCD.setting(False, kinds.TRUTH,
        "Start with the data of a cluster that etcd has no record of, and wait for a recovery.")

    cluster: str = CLUSTER.setting("default", kinds.NAME, "Name of the cluster in etcd.")
    # The cost of 256 on a single node is not measurable, and 256 are enough for 85 nodes with three
    # replicas each; see docs/decisions/0003.
    shards: int = CLUSTER.setting(256, kinds.count(1, SHARD_COUNT_MAX, note="a power of two"),
        "Shards of a new cluster or data directory.")
    # Two copies may be lost at once.
    replicas: int = CLUSTER.setting(3, kinds.count(2, 9), "Copies of each shard.")
    # One copy of everything acknowledged remains, whichever node fails.
    min_sync: int = CLUSTER.setting(
        2, kinds.count(2, 9), "Copies that must have a write before it is acknowledged.")
    # Four renewals may be lost.
    session_ttl: Duration = CLUSTER.setting(Duration(5 * SECOND), kinds.duration(SECOND, MINUTE),
        "Silence after which etcd declares a node gone.")
    # Less than the session, so that a crashed process costs less than a lost machine.
    peer_lease: Duration = CLUSTER.setting(
        Duration(2 * SECOND), kinds.duration(Duration(200 * MILLISECOND), MINUTE),
        "Time for which a primary may act without etcd after a backup's last answer.")
    # Several restarts of a node, or a takeover; short for a task that should run elsewhere.
    attempt_lease: Duration = CLUSTER.setting(Duration(15 * SECOND), kinds.duration(SECOND, DAY),
        "Time for which attempts continue without contact to their node or their shard's primary.")

    # Far more than NTP leaves, and little for a schedule.
    clock_skew_max: Duration = TIMING.setting(
        Duration(500 * MILLISECOND), kinds.duration(Duration(50 * MILLISECOND), DAY),
        "Difference to the clocks of most nodes beyond which this node fires nothing.")
    # A machine restarts in less, and a copy of its data costs more than the wait.
    repair_delay: Duration = TIMING.setting(
        Duration(5 * MINUTE), kinds.duration(SECOND, Duration(30 * DAY)),
        "Wait for a lost node before its copies are replaced on other nodes.")
    # Longer than a takeover, or each would start executions twice; not longer than the usual
    # grace, so that no fire is missed.
    stand_in_after: Duration = TIMING.setting(
        Duration(10 * SECOND), kinds.duration(Duration(3 * SECOND), Duration(30 * DAY)),
        "Time without a working primary after which a node fires available jobs itself.")
    # More than a commit takes on most machines, and little enough for a late pause or change.
    decide_ahead: Duration = TIMING.setting(
        Duration(25 * MILLISECOND), kinds.duration(Duration(0), SECOND),
        "Time before a fire is due at which it is decided, so that its commit is done by then.")

    # More than two cores can use, so that waiting tasks do not block others.
    slots: int = ATTEMPTS.setting(
        64, kinds.count(1, 100_000), "Attempts that may run at the same time.")
    # Some 20 MB.
    executions_max: int = ATTEMPTS.setting(
        10_000, kinds.count(1, 10_000_000), "Unfinished executions of one shard.")
    # A restart or an upgrade interrupts nothing.
    on_stop: str = ATTEMPTS.setting("keep", kinds.one_of("keep", "end"),
        "What a stop does with running attempts: they continue under the warden, or end.")
    drain: Duration = ATTEMPTS.setting(Duration(5 * SECOND), kinds.ANY_DURATION,
        "Time for attempts to finish before a stopping node ends them.")
    # It is memory, and up to `slots` sandboxes use it at the same time.
    sandbox_tmp_mb: int = ATTEMPTS.setting(256, kinds.count(1, 1 << 20, unit="MiB"),
        "Size of `/tmp`, and of `/dev/shm`, in each sandbox.")
    # A task that leaks memory does not exhaust the machine's memory.
    container_memory_mb: int = ATTEMPTS.setting(
        2048, kinds.count(0, 1 << 20, unit="MiB", note="0: no limit"),
        "Memory of a container whose task sets no limit.")
    # More than programs need, and fewer than a fork bomb.
    container_pids: int = ATTEMPTS.setting(1024, kinds.count(0, 1 << 22, note="0: no limit"),
        "Processes of a container whose task sets no limit.")
    # Off: it takes rights of root.
    task_users: tuple[str, ...] = ATTEMPTS.setting((), kinds.USERS,
        "Users as which commands may run, on a node of root.", unset="none")
    reload_code: bool = ATTEMPTS.setting(
        True, kinds.TRUTH, "Load the code of Python tasks again when it has changed on disk.")

    # Jobs of a production node run programs; see docs/reference/tasks.md.
    testing_executors: bool = ATTEMPTS.setting(
        False, kinds.TRUTH, "Offer the type `scripted`, which runs no program: for tests only.")

    history: Duration = STORAGE.setting(
        Duration(7 * DAY), kinds.ANY_DURATION, "Retention of finished executions and the ledger.")
    # Enough to see how a job that runs seldom went.
    history_per_job: int = STORAGE.setting(10, kinds.count(0, 100, note="0: none"),
        "Newest finished executions of each job that are kept beyond `history`.")
    # Some 350 bytes for each change, on each copy of its shard.
    audit_retention: Duration = STORAGE.setting(
        Duration(365 * DAY), kinds.ANY_DURATION, "Retention of the record of what users changed.")
    # Several seconds of writes at full speed; the node checks four times a second.
    disk_reserve_mb: int = STORAGE.setting(256, kinds.count(0, 1_000_000, unit="MiB"),
        "Free space on the disk of `data_dir` below which requests are refused.")

    body_max_mb: int = API.setting(
        4, kinds.count(1, 1_000, unit="MiB"), "Size of the largest request body.")
    # Some 200 MB.
    connections_max: int = API.setting(
        8_192, kinds.count(1, 1_000_000), "Connections to the API at the same time.")
    # Half of all: one client cannot exclude the others, and a balancer seldom needs more.
    connections_per_address_max: int = API.setting(
        4_096, kinds.count(1, 1_000_000), "Connections to the API from one address.")
    # None: DNS rebinding needs a name that an attacker can point at this node.
    allowed_hosts: tuple[str, ...] = API.setting((), kinds.HOSTS,
        "Names of the API besides addresses, `localhost` and those of `listen` and `advertise`.")
    allowed_origins: tuple[str, ...] = API.setting(
        (), kinds.ORIGINS, "Origins whose pages may make changes, besides this node's own.")

    # Not loopback: services there trust the programs of their machine.
    webhook_hosts: tuple[str, ...] = WEBHOOKS.setting((), kinds.WEBHOOK_HOSTS,
        "Hosts that webhooks of jobs may be sent to.",
        unset="all whose addresses are neither loopback nor link-local")
    webhook_key_file: Path | None = WEBHOOKS.setting(None, kinds.FILE,
        "File with the keys that sign webhooks, `whsec_...`, one on a line.",
        unset="webhooks are not signed")

    log_level: str = LOG.setting(
        "info", kinds.one_of("debug", "info", "warning", "error"), "Least level of the log.")
    # Failures are the usual subject of questions, and cost almost nothing at full load.
    access_log: str = LOG.setting("errors", kinds.one_of("off", "errors", "all"),
        "Answers with a line in the log; `errors` are those with a status of 400 and above.")
    # fmt: on

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the API, besides addresses and ``localhost``."""
        advertised = self.advertise.rpartition(":")[0].strip("[]")
        own = (self.listen.host, advertised)
        # The final dot of a name, usual in Kubernetes, is not sent as part of Host.
        return (*self.allowed_hosts, *(name.lower().removesuffix(".") for name in own))

    @property
    def api_files(self) -> TlsFiles | None:
        """The files of TLS of the API; None without TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return TlsFiles(self.tls_cert, self.tls_key, self.tls_client_ca)

    @property
    def api_authority(self) -> Path | None:
        """The file with which tasks check the API's certificate; None for those of the system.

        A certificate of the API that also serves between nodes has the authority of the nodes.
        """
        if self.api_files is None:
            return None
        is_shared = self.tls_cert == self.peer_cert
        return self.tls_ca or (self.peer_ca if is_shared else None)

    @property
    def peer_files(self) -> TlsFiles | None:
        """The files of TLS between nodes; None without TLS."""
        if self.peer_cert is None or self.peer_key is None or self.peer_ca is None:
            return None
        return TlsFiles(self.peer_cert, self.peer_key, self.peer_ca)

    @property
    def private_files(self) -> tuple[Path, ...]:
        """The files with keys and passwords, which no task may have by a bind."""
        keys = (self.keyring, self.tls_key, self.peer_key, self.etcd_key, self.webhook_key_file)
        tokens = (self.bootstrap_key_file, self.etcd_password_file)
        return tuple(each for each in (*keys, *tokens) if each is not None)

    @property
    def ends_attempts(self) -> bool:
        """Whether attempts end when the node stops.

        They always end with the first process of a container, whose end kills all other processes.
        """
        return self.on_stop == "end" or os.getpid() == 1


def _settings() -> dict[str, Setting]:
    rows = {each.name: each.metadata[Setting] for each in fields(NodeConfig)}
    return {
        name: replace(row, name=name, flag=row.flag or f"--{name.replace('_', '-')}")
        for name, row in rows.items()
    }


SETTINGS: Mapping[str, Setting] = _settings()
"""The table, by name."""

NOT_SETTINGS = frozenset(
    f"ROTA_{name}"
    for name in (
        *("CONFIG", "URL", "CLIENT_CONFIG", "NAMESPACE", "OUTPUT", "PROFILE", "TIMEOUT"),
        *("EXECUTION_ID", "TASK", "ATTEMPT", "TOKEN", "IDEMPOTENCY_KEY", "FIRE_TIME"),
        *("STORE_ID", "PARAMETERS", "SECRETS", "TOKEN_FILE", "CA", "CERT", "KEY"),
    )
)
"""Variables with another meaning, which belong to the client or to attempts."""

_LINK = re.compile(r"ROTA(_\w+)?_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?")
"""The pattern of the variables that Kubernetes sets in every pod for a Service named rota."""


# -- reading --------------------------------------------------------------------------------------


def load_config(file: Path | None, environ: Mapping[str, str], flags: Raw) -> NodeConfig:
    """Return the settings in *file*, *environ* and *flags*; later sources take precedence.

    Raises:
        Refused: With the code ``invalid_configuration``, and every problem with its place.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[str, object]] = {}
    for source, raw in (
        (f"{file}", _read_file(file, problems)),
        ("environment", _from_environment(environ)),
        ("command line", flags),
    ):
        for name, value in raw.items():
            if name in SETTINGS:
                found[name] = (source, value)
            else:
                problems.append(Problem(f"{source}: {name}", _unknown(name)))
    parsed = _parse(found, problems)
    # A setting whose value could not be parsed has its default, so that the others can be checked.
    config = _with_node_id(NodeConfig(**parsed))
    problems += (problem for check in CHECKS for problem in check(config))
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
    return {
        name.removeprefix("ROTA_").lower(): value
        for name, value in environ.items()
        if name.startswith("ROTA_") and name not in NOT_SETTINGS and not _LINK.fullmatch(name)
    }


def _unknown(name: str) -> str:
    close = get_close_matches(name, SETTINGS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(SETTINGS)}"
    return f"no such setting; {hint}"


def _parse(found: Mapping[str, tuple[str, object]], problems: list[Problem]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}  # Any: each value has the type of its field.
    for name, (source, value) in found.items():
        try:
            parsed[name] = SETTINGS[name].values.parse(value)
        except ValueError as error:
            problems.append(Problem(f"{source}: {name}", str(error)))
    return parsed


def _with_node_id(config: NodeConfig) -> NodeConfig:
    if config.node_id:
        return config
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).strip("-._")
    return replace(config, node_id=NodeId(host or "node"))


# -- checks of settings that depend on each other -------------------------------------------------


def _listens_on_loopback(config: NodeConfig) -> Iterable[Problem]:
    if config.insecure:
        return
    if not config.listen.is_loopback and (config.auth != "keys" or config.api_files is None):
        lacks = "without TLS, users of the network can read tokens and change requests"
        remedy = "Set tls_cert and tls_key, listen"
        if config.auth != "keys":
            lacks = f"with auth = {config.auth!r}, any user of these machines can run commands here"
            remedy = "Listen"
        yield Problem(
            "listen",
            f"{config.listen} can be reached from other machines, and {lacks}. {remedy} on "
            "127.0.0.1, or set --insecure if the network excludes other users",
        )
    if config.etcd and not config.peer_listen.is_loopback and config.peer_files is None:
        yield Problem(
            "peer_listen",
            f"{config.peer_listen} can be reached from other machines, but connections between "
            "nodes are not encrypted: set peer_cert, peer_key and peer_ca (`rota certs node "
            f"{config.node_id}` makes them), listen on 127.0.0.1, or set --insecure if the network "
            "excludes other users",
        )


def _advertises_what_others_reach(config: NodeConfig) -> Iterable[Problem]:
    if not config.etcd:
        return
    for listen, advertise in (("listen", "advertise"), ("peer_listen", "peer_advertise")):
        address: kinds.Address = getattr(config, listen)
        advertised: str = getattr(config, advertise)
        if advertised == kinds.AUTO and address.is_loopback and address.port:
            yield Problem(
                listen,
                f"{address} can be reached only from this machine, but {advertise} is "
                f"{kinds.AUTO!r}: listen on 0.0.0.0:{address.port}, or set {advertise}",
            )
        elif not address.is_specific and not (
            address.port if advertised == kinds.AUTO else advertised
        ):
            yield Problem(
                listen,
                f"{address} is not an address that other nodes can use; set {advertise} to one, or "
                f'have it detected with {advertise} = "{kinds.AUTO}" and a port here',
            )


def _has_all_that_etcd_settings_need(config: NodeConfig) -> Iterable[Problem]:
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
    for name, value, other, other_value in needed:
        if value and not other_value:
            yield Problem(name, f"has no effect without {other}: set both or neither")


def _has_a_bootstrap_key(config: NodeConfig) -> Iterable[Problem]:
    if config.bootstrap_key_file is not None:
        try:
            read_bootstrap_key(config.bootstrap_key_file)
        except ValueError as error:
            yield Problem("bootstrap_key_file", str(error))


def _has_a_key_ring(config: NodeConfig) -> Iterable[Problem]:
    if config.keyring is not None:
        try:
            read_key_ring(config.keyring)
        except KeyRingInvalid as error:
            yield Problem("keyring", str(error))


def _has_all_api_files(config: NodeConfig) -> Iterable[Problem]:
    """Check that the files of TLS of the API are complete and usable."""
    needed = (
        ("tls_cert", config.tls_cert, "tls_key", config.tls_key),
        ("tls_key", config.tls_key, "tls_cert", config.tls_cert),
        ("tls_ca", config.tls_ca, "tls_cert and tls_key", config.api_files),
        ("tls_client_ca", config.tls_client_ca, "tls_cert and tls_key", config.api_files),
    )
    for name, value, other, other_value in needed:
        if value and not other_value:
            yield Problem(name, f"has no effect without {other}: set both or neither")
    if config.api_files is not None:
        try:
            check_files(config.api_files)
        except TlsFilesInvalid as error:
            yield Problem("tls_cert", str(error))
    if config.tls_ca is not None:
        try:
            check_authority(config.tls_ca)
        except TlsFilesInvalid as error:
            yield Problem("tls_ca", str(error))


def _has_all_peer_files(config: NodeConfig) -> Iterable[Problem]:
    """Check that the files of TLS between nodes are complete and usable, and name this node."""
    names = ("peer_cert", "peer_key", "peer_ca")
    given = [name for name in names if getattr(config, name) is not None]
    if given and len(given) < len(names):
        missing = ", ".join(name for name in names if name not in given)
        yield Problem(given[0], f"has no effect without {missing}: set all three or none")
    elif given and not config.etcd:
        yield Problem("peer_cert", "has no effect without etcd: set both or neither")
    elif not given and config.peer_tls == "accept":
        yield Problem(
            "peer_tls",
            "accept has no effect without peer_cert, peer_key and peer_ca: set them, or "
            "omit peer_tls",
        )
    elif config.peer_files is not None:
        own = node_uri(config.cluster, config.node_id)
        try:
            problem = problem_with(config.peer_files, own)
        except TlsFilesInvalid as error:
            problem = str(error)
        if problem:
            yield Problem("peer_cert", problem)


def _may_run_tasks_of_users(config: NodeConfig) -> Iterable[Problem]:
    if config.task_users and (why := why_not_as_others()):
        yield Problem("task_users", why)


def _has_webhook_keys(config: NodeConfig) -> Iterable[Problem]:
    if config.webhook_key_file is not None:
        try:
            read_webhook_keys(config.webhook_key_file)
        except ValueError as error:
            yield Problem("webhook_key_file", str(error))


def _has_a_power_of_two_shards(config: NodeConfig) -> Iterable[Problem]:
    if config.shards & (config.shards - 1):
        yield Problem("shards", f"{config.shards} is not a power of two")


def _syncs_no_more_than_replicas(config: NodeConfig) -> Iterable[Problem]:
    if config.min_sync > config.replicas:
        yield Problem("min_sync", f"{config.min_sync} is more than the {config.replicas} replicas")


CHECKS: tuple[Callable[[NodeConfig], Iterable[Problem]], ...] = (
    _listens_on_loopback,
    _advertises_what_others_reach,
    _has_all_that_etcd_settings_need,
    _has_a_bootstrap_key,
    _has_a_key_ring,
    _has_all_api_files,
    _has_all_peer_files,
    _may_run_tasks_of_users,
    _has_webhook_keys,
    _has_a_power_of_two_shards,
    _syncs_no_more_than_replicas,
)
"""The checks; each yields a problem for every setting that contradicts other settings."""
