"""Benchmark of the check in front of every request (the guard), alone. ``make bench-parts``.

A GET and a POST request, with the headers that rota's client sends, are checked repeatedly. The
result is the best of many short runs, since a busy machine affects the best run little.
"""

from timeit import repeat

from multidict import CIMultiDict, CIMultiDictProxy

from bench.parts.figures import show
from rota.node.api.http.guard import Guard

RUNS, REQUESTS = 400, 1_000
USUAL = {
    "Host": "127.0.0.1:7400",
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Python/3.11 aiohttp/3.14",
}
CHANGE = {**USUAL, "Content-Length": "17", "Content-Type": "application/json"}


def best_us(method: str, headers: dict[str, str]) -> float:
    """Return the microseconds that the check of a request takes, in the best of `RUNS` runs."""
    guard, given = Guard(()), CIMultiDictProxy(CIMultiDict(headers))
    has_body = "Content-Length" in headers

    def judge() -> None:
        for _ in range(REQUESTS):
            assert guard.refusal(method, given, has_body=has_body) is None

    return min(repeat(judge, number=1, repeat=RUNS)) * 1e6 / REQUESTS


def main() -> None:
    """Measure, and print the figures."""
    print(f"the guard of requests alone, best of {RUNS} runs")
    show(
        {"scenario": f"{method} of rota's client", "us": round(best_us(method, headers), 2)}
        for method, headers in (("GET", USUAL), ("POST", CHANGE))
    )


if __name__ == "__main__":
    main()
