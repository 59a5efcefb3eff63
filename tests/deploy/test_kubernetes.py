"""The manifests are what Kubernetes takes, and the chart makes the same of the same settings."""

import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

import helm_python as helm
import pytest
import yaml

from deploy.programs import DEPLOY, run
from rota.node.system.config import load_config
from support.peer_certificates import PeerAuthority

Manifest = Any  # Any: YAML; each test reads the fields that it checks.

KUBERNETES = DEPLOY / "kubernetes"
ETCD = ["http://etcd.etcd:2379"]
VERSIONS = ("1.35", "1.37")
"""The oldest that gives pods their zone, and the newest there are schemas of."""


@cache
def of_kustomize() -> str:
    """Return what ``kubectl apply -k`` would apply."""
    return run(Path(sys.executable).with_name("kubectl"), "kustomize", KUBERNETES / "base")


def of_chart(**values: object) -> str:
    """Return what ``helm install rota`` would apply."""
    with helm.Chart.load(str(KUBERNETES / "chart")) as chart:
        files = chart.render({"etcd": ETCD, **values}, name="rota", namespace="rota")
    return "\n---\n".join(files.values())


def manifests(text: str) -> dict[tuple[str, str], Manifest]:
    """Return manifests by kind and name."""
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(of_kustomize, id="kustomize"),
        pytest.param(of_chart, id="chart"),
        pytest.param(
            lambda: of_chart(
                replicas=5, config={"slots": 8}, networkPolicy={"enabled": False},
                storage={"size": "1Ti", "className": "fast"}, imagePullSecrets=[{"name": "us"}],
                etcdAccess={"secret": "etcd-rota"}, peerTls={"secret": "rota-certs"},
                apiTls={"secret": "rota-api"}, nodeSelector={"disk": "ssd"},
                tolerations=[{"key": "batch", "operator": "Exists"}],
            ),
            id="chart-with-everything",
        ),
    ],
)  # fmt: skip
def test_manifests_fit_the_schemas_of_kubernetes(text: Any, version: str, tmp_path: Path) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(text())

    program = Path(sys.executable).with_name("kubernetes-validate")
    printed = run(program, "--strict", "--kubernetes-version", version, file)

    assert printed.count(" passed ") == len(manifests(file.read_text()))


def test_the_chart_makes_of_its_defaults_what_the_manifests_are() -> None:
    plain = manifests(of_kustomize())
    made = manifests(of_chart(config={"log_level": "info"}))

    del plain["Namespace", "rota"]
    assert {bare(each) for each in made.values()} == {bare(each) for each in plain.values()}


def bare(manifest: Manifest) -> str:
    """Return a manifest without the names of its release, configuration and image."""
    text = yaml.safe_dump(without(manifest))
    for generated in {each for each in text.split() if each.startswith("rota-") and len(each) > 12}:
        text = text.replace(generated, "rota")
    return text.replace("rota:latest", "rota").replace("rota:0.1.0", "rota")


def without(node: Manifest) -> Manifest:
    """Return YAML without Helm's labels and the fields that only one of the two has."""
    left_out = (
        "app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart",
        "app.kubernetes.io/managed-by", "checksum/config", "namespace", "imagePullPolicy",
    )  # fmt: skip
    match node:
        case dict():
            items = cast("dict[str, Manifest]", node).items()  # A match gives no element types.
            kept = {key: without(value) for key, value in items if key not in left_out}
            if kept.get("kind") in ("ServiceAccount", "ConfigMap"):
                kept["metadata"].pop("labels", None)
            return kept
        case list():
            return [without(each) for each in cast("list[object]", node)]
        case _:
            return node


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"etcd": []}, "etcd"),
        ({"etcd": ["etcd:2379"]}, "etcd/0"),
        ({"replica": 3}, "replica"),
        ({"replicas": "3"}, "replicas"),
        ({"config": {"node_id": "a"}}, "config"),
        ({"config": {"insecure": False}}, "config"),
        ({"config": {"tls_cert": "/x"}}, "config"),
        ({"networkPolicy": {"etcd": []}}, "networkPolicy/etcd"),
        ({"storage": {"size": "10"}}, "storage/size"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=problem):
        of_chart(**values)


def test_every_default_of_the_chart_is_allowed_by_its_schema() -> None:
    found = helm.lint(str(KUBERNETES / "chart"), {"etcd": ETCD})

    assert found["errors"] == []


def test_a_zone_is_read_from_the_label_that_is_named() -> None:
    made = manifests(of_chart(zoneLabel="example.com/rack"))

    [container] = made["StatefulSet", "rota"]["spec"]["template"]["spec"]["containers"]
    [zone] = [each for each in container["env"] if each["name"] == "ROTA_ZONE"]
    assert zone["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['example.com/rack']"


def test_settings_become_variables_of_their_names() -> None:
    made = manifests(of_chart(config={"slots": 8, "access_log": "all"}))

    assert made["ConfigMap", "rota"]["data"] == {
        "ROTA_ETCD": ETCD[0], "ROTA_SLOTS": "8", "ROTA_ACCESS_LOG": "all",
        "ROTA_ALLOWED_HOSTS": "rota,rota.rota,*.svc,*.svc.cluster.local",
    }  # fmt: skip


def test_the_first_key_is_in_a_secret_that_nodes_and_hooks_read() -> None:
    variables = variables_of(of_chart(firstKey={"secret": "ours"}))

    file = "/etc/rota/first-key/token"
    assert variables["ROTA_BOOTSTRAP_KEY_FILE"] == variables["ROTA_TOKEN_FILE"] == file
    assert volumes_of(of_chart(firstKey={"secret": "ours"}))["first-key"] == {
        "secretName": "ours", "defaultMode": 0o440,
    }  # fmt: skip


def test_without_a_secret_the_first_key_is_created_in_a_pod() -> None:
    text = of_chart(firstKey={"secret": ""})

    assert not {"ROTA_BOOTSTRAP_KEY_FILE", "ROTA_TOKEN_FILE"} & variables_of(text).keys()
    assert "first-key" not in volumes_of(text)


def test_each_node_has_its_own_certificate_and_a_name_that_stays() -> None:
    text = of_chart(peerTls={"secret": "rota-certs"})

    variables = variables_of(text)
    assert variables["ROTA_PEER_ADVERTISE"] == "$(ROTA_NODE_ID).rota-nodes:7401"
    assert variables["ROTA_PEER_CERT"] == "/etc/rota/peer/$(ROTA_NODE_ID).crt"
    assert variables["ROTA_PEER_KEY"] == "/etc/rota/peer/$(ROTA_NODE_ID).key"
    assert variables["ROTA_PEER_CA"] == "/etc/rota/peer/ca.crt"
    # Kubernetes replaces $(NAME) by variables that stand before.
    assert list(variables).index("ROTA_NODE_ID") < list(variables).index("ROTA_PEER_ADVERTISE")
    assert volumes_of(text)["peer-tls"] == {"secretName": "rota-certs", "defaultMode": 0o440}


def test_probes_scrapes_and_hooks_use_the_tls_of_the_api() -> None:
    text = of_chart(apiTls={"secret": "rota-api"})

    assert schemes_of_probes(text) == ["HTTPS"] * 3
    variables = variables_of(text)
    assert variables["ROTA_TLS_CERT"] == "/etc/rota/api/tls.crt"
    assert variables["ROTA_TLS_KEY"] == "/etc/rota/api/tls.key"
    assert variables["ROTA_TLS_CA"] == variables["ROTA_CA"] == "/etc/rota/api/ca.crt"
    assert variables["ROTA_URL"] == "https://127.0.0.1:7400"
    assert variables["ROTA_ADVERTISE"] == "$(ROTA_NODE_ID).rota-nodes.rota.svc:7400"
    assert annotations_of(text)["prometheus.io/scheme"] == "https"
    assert volumes_of(text)["api-tls"] == {"secretName": "rota-api", "defaultMode": 0o440}


def test_without_tls_of_the_api_probes_and_scrapes_use_http() -> None:
    text = of_chart()

    assert schemes_of_probes(text) == ["HTTP"] * 3
    assert "ROTA_TLS_CERT" not in variables_of(text)
    assert "prometheus.io/scheme" not in annotations_of(text)


@pytest.mark.parametrize(
    ("api", "peers", "is_insecure"),
    [("", "", True), ("x", "", True), ("", "x", True), ("x", "x", False)],
)
def test_nodes_are_insecure_only_while_one_of_their_ports_has_no_tls(
    api: str, peers: str, *, is_insecure: bool
) -> None:
    text = of_chart(apiTls={"secret": api}, peerTls={"secret": peers})

    assert ("ROTA_INSECURE" in variables_of(text)) == is_insecure


def test_the_settings_of_a_chart_with_tls_are_those_of_a_secure_node(tmp_path: Path) -> None:
    variables = variables_of(of_chart(apiTls={"secret": "x"}, peerTls={"secret": "x"}))
    authority = PeerAuthority(tmp_path / "certs")
    made = authority.node("rota-0", "127.0.0.1", "*.rota-nodes.rota.svc")
    files = {"crt": made.certificate, "key": made.key}
    settings = {
        name: value.replace("$(ROTA_NODE_ID)", "rota-0")
        for name, value in variables.items()
        if name not in ("ROTA_BOOTSTRAP_KEY_FILE", "ROTA_TOKEN_FILE", "ROTA_ZONE")
    } | {"ROTA_NODE_ID": "rota-0", "ROTA_ETCD": ETCD[0]}
    for name, value in settings.items():
        if value.startswith("/etc/rota/"):
            settings[name] = str(authority.certificate if "ca.crt" in value else files[value[-3:]])

    config = load_config(None, settings, {})

    assert (config.insecure, config.auth, config.peer_tls) == (False, "keys", "require")


def schemes_of_probes(text: str) -> list[str]:
    """Return the scheme of each probe."""
    [container] = manifests(text)["StatefulSet", "rota"]["spec"]["template"]["spec"]["containers"]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    return [container[each]["httpGet"].get("scheme", "HTTP") for each in probes]


def annotations_of(text: str) -> dict[str, str]:
    """Return the annotations of the pods."""
    template = manifests(text)["StatefulSet", "rota"]["spec"]["template"]
    return dict(template["metadata"]["annotations"])


def variables_of(text: str) -> dict[str, str]:
    """Return the variables with a fixed value of the container of a node, in their order."""
    [container] = manifests(text)["StatefulSet", "rota"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def volumes_of(text: str) -> dict[str, Manifest]:
    """Return the Secrets of the volumes of a node, by the name of the volume."""
    volumes = manifests(text)["StatefulSet", "rota"]["spec"]["template"]["spec"]["volumes"]
    return {each["name"]: each["secret"] for each in volumes if "secret" in each}


def test_the_names_that_nodes_are_asked_by_may_be_others() -> None:
    made = manifests(of_chart(config={"allowed_hosts": "rota.example.org"}))

    assert made["ConfigMap", "rota"]["data"]["ROTA_ALLOWED_HOSTS"] == "rota.example.org"


def test_nodes_reach_nothing_but_each_other_etcd_and_dns() -> None:
    [*rules] = manifests(of_chart())["NetworkPolicy", "rota"]["spec"]["egress"]

    reached = [([*each["to"][0]], [port["port"] for port in each["ports"]]) for each in rules]
    assert reached == [
        (["podSelector"], ["api", "peer"]),
        (["namespaceSelector"], [2379]),
        (["namespaceSelector"], [53, 53]),
    ]


def test_ports_of_etcd_are_those_of_its_urls_and_further_rules_are_added() -> None:
    further = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    urls = ["https://a:2379", "https://b:12379/", "https://c", "https://d:2379"]

    made = manifests(of_chart(etcd=urls, networkPolicy={"egress": [further]}))

    _, etcd, _, last = made["NetworkPolicy", "rota"]["spec"]["egress"]
    assert [each["port"] for each in etcd["ports"]] == [2379, 12379, 443]
    assert last == further


def test_credentials_for_etcd_come_from_a_secret() -> None:
    text = of_chart(etcd=["https://etcd.etcd:2379"], etcdAccess={"secret": "etcd-rota"})

    environment = variables_of(text)
    secret = {"secretName": "etcd-rota", "defaultMode": 0o440}
    assert volumes_of(text)["etcd-access"] == secret
    assert environment["ROTA_ETCD_USER"] == "rota"
    assert environment["ROTA_ETCD_PASSWORD_FILE"] == "/etc/rota/etcd/password"
    assert environment["ROTA_ETCD_CA"] == "/etc/rota/etcd/ca.crt"


def test_a_pod_has_no_more_rights_than_a_node_needs() -> None:
    pod = manifests(of_chart())["StatefulSet", "rota"]["spec"]["template"]["spec"]

    [container] = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
