"""Requests of Dkron's executor ``http`` as commands with curl."""

import json
import re
import shlex
from typing import cast

from rota.client.definitions import Definition
from rota.client.imports.located import Located

TIMEOUT_S = 30
"""The time limit of a request that names none."""

_CARRIED = frozenset(
    {"method", "url", "headers", "body", "timeout", "expectCode", "expectBody", "debug"}
    | {"tlsNoVerifyPeer", "tlsCertificateFile", "tlsCertificateKeyFile", "tlsRootCAsFile"}
)
_FILES = {
    "tlsCertificateFile": "--cert",
    "tlsCertificateKeyFile": "--key",
    "tlsRootCAsFile": "--cacert",
}


def http_command(config: Located) -> Definition:
    """Return the command that makes the request of *config*, and its output and exit status.

    Raises:
        InvalidFile: The method or the URL is missing, or a value is not valid.
    """
    for key in ("method", "url"):
        if not config.text(key):
            raise config.findings.invalid(config.line(), f"executor_config has no {key}")
    config.findings.change(
        config.line("url"),
        "http: the agent of Dkron makes the request",
        "a command makes it; the nodes need curl",
    )
    config.lose_others(_CARRIED, {})
    request = _request(config)
    codes, pattern = config.text("expectCode"), config.text("expectBody")
    return {"command": _checked(config, request, codes, pattern) if codes or pattern else request}


def _request(config: Located) -> list[str]:
    timeout, body = config.text("timeout"), config.text("body")
    if timeout and not timeout.isdecimal():
        raise config.invalid("timeout", "a number of seconds")
    words = ["curl", "--silent", "--show-error", "--location", "--globoff"]
    words += ["--max-time", timeout or str(TIMEOUT_S), "--request", config.text("method")]
    headers = _headers(config)
    for header in headers:
        words += ["--header", header]
    if body:
        if not any(header.lower().startswith("content-type:") for header in headers):
            # curl would add one.
            words += ["--header", "Content-Type:"]
        words += ["--data-raw", body]
    for key, option in _FILES.items():
        if path := config.text(key):
            words += [option, path]
    if config.text("tlsNoVerifyPeer").lower() == "true":
        words.append("--insecure")
    return [*words, "--url", config.text("url")]


def _headers(config: Located) -> list[str]:
    """Return the headers, which are a list in JSON in a text."""
    text = config.text("headers")
    try:
        headers: object = json.loads(text) if text else []
    except json.JSONDecodeError as error:
        raise config.invalid("headers", "a list of texts in JSON") from error
    if not isinstance(headers, list):
        raise config.invalid("headers", "a list of texts in JSON")
    return [str(each) for each in cast("list[object]", headers) if each]


def _checked(config: Located, request: list[str], codes: str, pattern: str) -> str:
    """Return a line for the shell that fails unless status and body of the answer fit."""
    words = [*request, "--output", "body", "--write-out", "%{http_code}"]
    parts = [": > body", f"code=$({shlex.join(words)})", "cat body"]
    if codes:
        if not re.fullmatch(r"\d{3}(\s*,\s*\d{3})*", codes):
            raise config.invalid("expectCode", "a status, or several with commas between them")
        fit = "|".join(re.findall(r"\d{3}", codes))
        unfit = 'echo "unexpected status $code" >&2; exit 1'
        parts.append(f"case $code in {fit}) ;; *) {unfit} ;; esac")
    if pattern:
        config.findings.change(
            config.line("expectBody"),
            "expectBody: a regular expression of Go for the whole body",
            "grep -E compares it with each line; check whether it needs another form",
        )
        parts.append(f"grep -Eq -e {shlex.quote(pattern)} body")
    return " && ".join(parts)
