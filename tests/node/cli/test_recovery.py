"""Exit statuses of ``rota cluster recover-coordination`` by the node's answer."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from rota.wire.documents import RecoveryView, ShardRecoveryView
from support.rota_program import Rota

EX_CLOSED = 8


@contextmanager
def answering(outcome: str) -> Generator[str]:
    """Yield the address of a server that answers each request with the recovery of a shard."""
    shard = ShardRecoveryView(
        shard=3, outcome=outcome, epoch_before=5, epoch=None, primary=None, copies=[], missing=[]
    )
    body = msgspec.json.encode(RecoveryView(generation=1, shards=[shard], without=[]))

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
@pytest.mark.parametrize(
    ("outcome", "status"),
    [("recovered", 0), ("founded", 0), ("unsure", EX_CLOSED), ("changed", EX_CLOSED)],
)
def test_the_command_exits_with_8_where_shards_stay_closed_also_as_a_dry_run(
    rota_alone: Rota, option: str, outcome: str, status: int
) -> None:
    with answering(outcome) as url:
        ran = rota_alone("cluster", "recover-coordination", option, "--url", url)

    assert ran.status == status
    assert ("dry run: nothing is changed" in ran.err) is (option == "--dry-run")
