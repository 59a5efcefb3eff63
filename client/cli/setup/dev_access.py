"""The line about tokens in the greeting of ``rota dev``."""


def access_line(url: str, *, is_open: bool) -> str:
    """Return the line with the form of a request of curl to the node at *url*."""
    if is_open:
        return "  open  every program on this machine can use it, without a token\n"
    return f'  curl  curl -H "Authorization: Bearer $(rota auth token)" {url}/api/v1/jobs\n'
