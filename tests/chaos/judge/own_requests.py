"""TLS and token of the requests that a run itself makes, by the variables of rota's client."""

import os
import ssl
from pathlib import Path


def context() -> ssl.SSLContext | None:
    """Return the context of the harness's own requests; None without TLS."""
    ca = os.environ.get("ROTA_CA")
    return ssl.create_default_context(cafile=ca) if ca else None


def headers() -> dict[str, str]:
    """Return the headers of the harness's own requests."""
    file = os.environ.get("ROTA_TOKEN_FILE")
    return {"Authorization": f"Bearer {Path(file).read_text()}"} if file else {}
