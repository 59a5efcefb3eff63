"""The state of a job on a node: by the API, by tasks with their identity, after a restart."""

import pytest

from rota.client import Client
from support.rotad import Refusal, Rotad


def test_values_have_revisions_as_etags_and_survive_a_restart(own_node: Rotad) -> None:
    own_node.start()
    own_node.create(name="import", command="true")
    with Client(own_node.url) as client:
        first = client.put_state("import", "cursor", {"day": 1}, if_revision=0)
        second = client.put_state("import", "cursor", {"day": 2}, if_revision=first.revision)
        dry = client.put_state("import", "cursor", {"day": 3}, dry_run=True)

    own_node.kill()
    own_node.start()

    with Client(own_node.url) as client:
        assert (first.revision, second.revision, dry.revision) == (1, 2, 3)
        found = client.get_state("import", "cursor")
        assert (found.value, found.revision) == ({"day": 2}, 2)
        assert [each.key for each in client.state("import")] == ["cursor"]
        client.delete_state("import", "cursor", if_revision=2)
        assert client.state("import") == []


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("a b", 1, "invalid_state"), ("k", "x" * 65_536, "invalid_state")],
)
def test_a_strange_key_and_a_long_value_are_refused(
    node: Rotad, key: str, value: object, code: str
) -> None:
    node.create(name="strange", command="true")

    with pytest.raises(Refusal) as refused:
        node.call("PUT", f"/api/v1/jobs/strange/state/{key.replace(' ', '%20')}", {"value": value})

    assert refused.value.problem["code"] == code
