"""Every query of the dashboard and every alert says something of real nodes to a Prometheus."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.programs import DEPLOY, needs, run
from support.cluster import Cluster
from support.etcd import EtcdCluster, free_ports, needs_etcd, wait_until
from support.peer_certificates import PeerAuthority
from support.rotad import Rotad

pytestmark = [needs("prometheus", "prometheus"), needs_etcd]

Json = Any  # Any: YAML and JSON; each test reads the fields that it checks.

MONITORING = DEPLOY / "monitoring"
OPERATE = DEPLOY.parent / "docs" / "how-to" / "operate.md"
ALERTS = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
QUERIES = [
    pytest.param(target, id=f"{panel['title']}-{target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]

each_alert = pytest.mark.parametrize(
    "alert", [pytest.param(each, id=each["alert"]) for each in ALERTS]
)
COMPARISON = re.compile(r"\s(==|<|>)\s")


class Prometheus:
    """A Prometheus with the alerts, that looks at *nodes* each second."""

    def __init__(self, folder: Path, nodes: list[str]) -> None:
        [port] = free_ports(1)
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(MONITORING / "alerts.yml")]
        [scrape] = config["scrape_configs"]
        del scrape["dns_sd_configs"]
        scrape["static_configs"] = [{"targets": nodes}]
        token = folder / "rota.token"
        token.write_text("these nodes are open")
        scrape["authorization"]["credentials_file"] = str(token)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    @contextmanager
    def running(self) -> Generator["Prometheus"]:
        """Run it while the body runs."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={self.folder}/prometheus.yml",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield self
        finally:
            process.terminate()
            process.wait(20)

    def ask(self, expression: str) -> list[Json]:
        """Return the present value of an expression."""
        query = urllib.parse.urlencode({"query": expression})
        found: list[Json] = self._get(f"query?{query}")["result"]
        return found

    def wait_for(self, expression: str) -> list[Json]:
        """Wait until an expression gives a number, and return its value."""
        wait_until(lambda: self._gives(expression), f"{expression} gives nothing")
        return self.ask(expression)

    def rules(self) -> list[Json]:
        """Return the alerts that Prometheus has loaded."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _gives(self, expression: str) -> bool:
        try:
            values = [each["value"][1] for each in self.ask(expression)]
        except OSError:
            return False
        return any(value != "NaN" for value in values)  # A quantile of nothing is not a number.

    def _get(self, path: str) -> Json:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for the jobs of `prometheus`."""
    folder = tmp_path_factory.mktemp("monitoring")
    with EtcdCluster(folder) as etcd, Cluster(folder, etcd) as cluster:
        authority = PeerAuthority(folder / "certs", cluster.name)
        for node, node_id in zip(cluster, ("n1", "n2", "n3"), strict=True):
            node.flags += authority.flags(node_id)
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the nodes often enough for every rate."""
    nodes = [node.url.removeprefix("http://") for node in cluster]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), nodes).running() as prometheus:
        prometheus.wait_for('count(up{job="rota"} == 1) == 3')
        first: Rotad = cluster.nodes[0]
        first.create(name="works", command="true", schedule="* * * * * *")
        first.create(name="fails", command="false", schedule="* * * * * *")
        for status in ("success", "failed"):
            prometheus.wait_for(f'rate(rota_executions_total{{status="{status}"}}[1m]) > 0')
        yield prometheus


def test_alerts_and_configuration_are_what_prometheus_takes() -> None:
    # The file of the token is made by its user.
    run("promtool", "check", "config", "--syntax-only", MONITORING / "prometheus.yml")


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_dashboard_gives_what_its_legend_names(
    query: Json, prometheus: Prometheus
) -> None:
    given = prometheus.wait_for(query["expr"].replace("$__rate_interval", "1m"))

    named = set(re.findall(r"{{ *(\w+) *}}", query.get("legendFormat", "")))
    assert all(named <= set(each["metric"]) for each in given)


@each_alert
def test_every_alert_compares_what_there_is_and_names_what_it_has(
    alert: Json, prometheus: Prometheus
) -> None:
    # An untrue comparison gives nothing, as a missing metric does; a difference gives a value.
    differences, count = COMPARISON.subn(" - ", quick(alert["expr"]))

    assert count
    given = prometheus.wait_for(differences)
    named = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    assert all(named <= set(each["metric"]) for each in given)


@pytest.mark.parametrize(
    "alert",
    [
        pytest.param(each, id=each["alert"])
        for each in ALERTS
        # Half of what runs here fails, and how long things take is the machine's affair.
        if each["alert"] != "RotaExecutionsFail" and "_bucket" not in each["expr"]
    ],
)
def test_every_alert_is_silent_while_all_is_well(alert: Json, prometheus: Prometheus) -> None:
    expression = quick(alert["expr"])

    wait_until(lambda: prometheus.ask(expression) == [], f"{expression} is not silent")


def test_every_alert_is_explained_where_operators_look() -> None:
    explained = re.findall(r"^\| `(Rota\w+)`", OPERATE.read_text(), re.MULTILINE)

    assert explained == [each["alert"] for each in ALERTS]


def test_prometheus_evaluates_every_alert_without_an_error(prometheus: Prometheus) -> None:
    def health() -> dict[str, str]:
        return {rule["name"]: rule["health"] for rule in prometheus.rules()}

    wait_until(lambda: set(health().values()) == {"ok"}, "not all have been evaluated")

    assert list(health()) == [alert["alert"] for alert in ALERTS]


def test_the_loss_of_a_node_is_noticed(cluster: Cluster, prometheus: Prometheus) -> None:
    cluster.nodes[2].kill_all()

    # Its shards are open elsewhere before Prometheus has looked twice.
    wait_noticed(prometheus, "RotaNodeDown", "RotaCopiesMissing")


def test_the_loss_of_two_nodes_is_noticed(cluster: Cluster, prometheus: Prometheus) -> None:
    for node in cluster.nodes[1:]:
        node.kill_all()

    wait_noticed(prometheus, "RotaNodesDown", "RotaNodeNotReady", "RotaShardsClosed")


def quick(expression: str) -> str:
    """Return *expression* with its past looked at each second: there is not more of it here."""
    return re.sub(r":\w+\]", ":1s]", expression)


def wait_noticed(prometheus: Prometheus, *alerts: str) -> None:
    """Wait until each of *alerts* has been true once."""
    unseen = {each["alert"]: quick(each["expr"]) for each in ALERTS if each["alert"] in alerts}
    assert set(unseen) == set(alerts)

    def are_all_seen() -> bool:
        for name in [name for name, expr in unseen.items() if prometheus.ask(expr)]:
            del unseen[name]
        return not unseen

    try:
        wait_until(are_all_seen, "", timeout_s=60)
    except AssertionError:
        log = (prometheus.folder / "log").read_text()[-2_000:]
        pytest.fail(f"never seen: {unseen}; up: {prometheus.ask('up')}\n{log}")
