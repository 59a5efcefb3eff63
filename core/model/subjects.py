"""Subjects: who a binding or an approval means."""

from rota.core.model.ids import is_full_name, is_name

COMMON_NAME_MAX = 200
SUBJECT_RULE = (
    "write principal:NAME, cert:COMMON-NAME for a client certificate, job:NAMESPACE/NAME for tasks "
    "of a job with identity, or sub:ISSUER/SUBJECT or group:ISSUER/GROUP for tokens of an issuer"
)


def is_subject(text: str) -> bool:
    """Return True if *text* names a subject (see `SUBJECT_RULE`)."""
    kind, _, named = text.partition(":")
    if kind == "cert":
        return 0 < len(named) <= COMMON_NAME_MAX and named.isprintable()
    if kind in ("sub", "group"):
        issuer, _, value = named.partition("/")
        return is_name(issuer) and 0 < len(value) <= COMMON_NAME_MAX and value.isprintable()
    if kind == "job":
        return is_full_name(named)
    return kind == "principal" and is_name(named)
