"""A receiver of webhooks on loopback."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.rotad import Json


@dataclass(frozen=True)
class Request:
    """A request that the receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Json:
        """The document in its body."""
        return json.loads(self.body)["data"]


@dataclass
class Receiver:
    """A receiver of webhooks; it answers with the status that ends the path, in order of requests.

    ``/500-200`` answers first 500 and then 200; the last status is repeated. A path that ends
    otherwise is answered with 204.
    """

    requests: list[Request] = field(default_factory=list[Request])
    port: int = 0
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen, on the port of an earlier start."""
        found = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                statuses = _statuses(self.path)
                count = sum(each.path == self.path for each in found)
                found.append(Request(self.path, dict(self.headers), body))
                status = statuses[min(count, len(statuses) - 1)]
                self.send_response(status)
                self.send_header("Location", "/redirected/200")
                answer = f"no text\nin {self.path.split('/')[1]} {{}}\n" if status == 400 else ""
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def url(self, path: str) -> str:
        """Return the URL of *path* here."""
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Request]:
        """Return the requests for *path*."""
        return [each for each in self.requests if each.path == path]


def _statuses(path: str) -> list[int]:
    parts = path.rpartition("/")[2].split("-")
    return [int(part) for part in parts] if all(part.isdecimal() for part in parts) else [204]
