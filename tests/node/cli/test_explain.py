"""``rota explain`` on a node."""

from support.rota_program import Rota


def test_past_and_future_times_are_explained(rota: Rota) -> None:
    rota("jobs", "create", "odd", "--schedule", "0 0 1 1 *", "--", "true")

    past = rota("explain", "odd", "--at", "2001-01-01T00:00:00Z")
    future = rota("explain", "odd", "--at", "2090-01-01T00:00:00Z", "-o", "json")

    assert past.out.startswith("CODE")
    assert "not_yet_created" in past.out
    assert [each["code"] for each in future.json] == ["will_fire"]
    assert list(future.json[0]) == ["code", "at", "cause", "change"]
    assert rota("explain", "odd").status == 2
