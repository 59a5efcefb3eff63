"""Effects of loading the program: certificates that are not read, an unchanged environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.certificates import Authority, needs_openssl

SCRIPT = """
import json, os, ssl
from rota.node.__main__ import load
load()
from aiohttp import connector
from rota.node.coordination.credentials import Credentials

def facts(context):
    return [context.verify_mode.name, context.check_hostname, len(context.get_ca_certs())]

print(json.dumps({
    "loaded": facts(connector._SSL_CONTEXT_VERIFIED),
    "for etcd": facts(Credentials().tls(["http://a:1", "HTTPS://b:2"])),
    "without": Credentials().tls(["http://a:1"]),
    "named": os.environ.get("SSL_CERT_FILE"),
}))
"""


@needs_openssl
@pytest.mark.parametrize("is_named", [True, False])
def test_authorities_are_read_for_an_etcd_with_https_alone(tmp_path: Path, is_named: bool) -> None:
    file = str(Authority(tmp_path / "ca").certificate)
    environment = {name: text for name, text in os.environ.items() if "SSL" not in name}
    if is_named:
        environment["SSL_CERT_FILE"] = file

    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, check=True
    )

    seen = json.loads(done.stdout)
    assert seen["loaded"] == ["CERT_REQUIRED", True, 0]
    assert seen["for etcd"][:2] == ["CERT_REQUIRED", True]
    assert seen["for etcd"][2] == 1 or not is_named
    assert seen["without"] is True
    assert seen["named"] == (file if is_named else None)


def test_what_only_some_nodes_need_is_not_loaded_at_the_start() -> None:
    script = "import sys; from rota.node.__main__ import load; load(); print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-P", "-c", script], stdout=subprocess.PIPE, check=True, text=True
    )

    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "aiohttp" in loaded
    assert not loaded & {"cryptography", "joserfc", "yaml", "rich", "prometheus_client.openmetrics"}
