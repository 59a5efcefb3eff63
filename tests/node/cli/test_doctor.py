"""``rota doctor``, against a node and without one."""

from pathlib import Path

from support.rota_program import NO_NODE, Rota


def test_a_node_that_is_well_is_reported_with_its_machine(rota: Rota, tmp_path: Path) -> None:
    ran = rota("doctor", "--data-dir", str(tmp_path / "not-yet" / "data"), "-o", "json")

    states = {each["check"]: each["state"] for each in ran.json}
    assert {states[each] for each in ("tzdata", "node", "nodes", "health", "shards")} == {"ok"}
    assert states.keys() >= {"clock", "open files", "disk", "sandbox"}
    assert ran.status == ("fail" in states.values())


def test_a_check_that_fails_has_its_remedy_and_the_status_1(rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "n1.crt").write_text("no certificate")

    ran = rota("doctor", str(tmp_path / "n1.crt"), "--url", NO_NODE, "-o", "json")

    failed = {each["check"]: each for each in ran.json if each["state"] == "fail"}
    assert ran.status == 1
    assert failed.keys() >= {"node", str(tmp_path / "n1.crt")}
    assert NO_NODE in failed["node"]["mend"]
