"""An image registry for tests: one image, over HTTP, in the network of an engine.

Run as a program it serves the folder in its first argument, and prints its port.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.docker import Dockerd

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar"
STALLED = "stalled"
"""A tag for which there never is an answer; the file ``asked`` says that one is waited for."""


@contextmanager
def serving(dockerd: Dockerd, image: str, folder: Path) -> Generator[str]:
    """Offer *image* of *dockerd*, and yield the name by which that can pull it, without its tag."""
    _lay_out(dockerd, image, folder)
    process = subprocess.Popen(
        [
            *("nsenter", f"--net=/run/netns/{dockerd.name}"),
            *(sys.executable, "-m", "support.registry", str(folder)),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}/image"
    finally:
        process.kill()
        process.communicate()


def _lay_out(dockerd: Dockerd, image: str, folder: Path) -> None:
    """Put the blobs of *image* into *folder* under their digests, and ``manifest``."""
    folder.mkdir()
    saved = folder / "saved.tar"
    dockerd.docker("save", "--output", str(saved), image)
    with tarfile.open(saved) as archive:

        def blob(name: str, media_type: str) -> dict[str, object]:
            file = archive.extractfile(name)
            assert file is not None
            content = file.read()
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            (folder / digest).write_bytes(content)
            return {"mediaType": media_type, "size": len(content), "digest": digest}

        index = archive.extractfile("manifest.json")
        assert index is not None
        [entry] = json.load(index)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(entry["Config"], CONFIG),
            "layers": [blob(name, LAYER) for name in entry["Layers"]],
        }
    (folder / "manifest").write_text(json.dumps(manifest))


class _Handler(BaseHTTPRequestHandler):
    folder: Path

    def do_GET(self) -> None:
        """Answer as the distribution API does, as far as a pull needs it."""
        name = self.path.rpartition("/")[2]
        if name == STALLED:
            (self.folder / "asked").touch()
            self.rfile.read()  # Until the client closes the connection.
        elif self.path == "/v2/":
            self._answer(b"{}", "application/json")
        elif "/manifests/" in self.path:
            self._answer((self.folder / "manifest").read_bytes(), MANIFEST)
        else:
            self._answer((self.folder / name).read_bytes(), "application/octet-stream")

    do_HEAD = do_GET  # noqa: N815 - as it is called there.

    def _answer(self, content: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(content).hexdigest()}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there.
        """Log nothing."""


if __name__ == "__main__":
    _Handler.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(server.server_port, flush=True)  # noqa: T201 - it is how it is asked for its port.
    server.serve_forever()
