"""Authorization of requests: by the operation's permission and the object's namespace."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rota.core.errors import Kind, Refused, not_found
from rota.node.access.grants import Grant, Grants
from rota.node.access.principal import ANONYMOUS, Principal
from rota.node.access.verbs import EVERY, ROLES, Verb
from rota.node.api.app import OPERATIONS
from rota.node.api.requests.permissions import Permission, Scope, in_cluster, on_each, on_object
from rota.node.api.requests.request_context import RequestContext
from support.request_contexts import without_node

MISSING = not_found("job", "nightly")


def request_with(permission: Permission, role: str, *namespaces: str) -> RequestContext:
    """Return a request of a caller with a role, as it reaches the handler."""
    http = make_mocked_request("GET", "/x", app=web.Application())
    request = without_node(http, ANONYMOUS)
    caller = Principal(name="ann", grants=Grants([Grant(ROLES[role], namespaces)]))
    request.admit(caller, permission)
    return request


def test_a_caller_without_the_verb_of_the_cluster_is_refused_before_the_handler() -> None:
    with pytest.raises(Refused, match="'ann' lacks the verb 'operate' in the whole cluster"):
        request_with(in_cluster(Verb.OPERATE), "admin", EVERY)

    request_with(in_cluster(Verb.OPERATE), "cluster-operator", EVERY)


def test_an_object_that_the_caller_may_not_read_does_not_exist_for_it() -> None:
    request = request_with(on_object(Verb.WRITE), "editor", "team-a")

    with pytest.raises(Refused) as refusal:
        request.authorize("team-b", missing=MISSING)

    assert refusal.value is MISSING


def test_a_caller_that_may_only_read_an_object_gets_the_missing_verb() -> None:
    request = request_with(on_object(Verb.RUN), "viewer", "team-a")

    with pytest.raises(Refused, match="lacks the verb 'run' in the namespace 'team-a'") as refusal:
        request.authorize("team-a", missing=MISSING)

    assert refusal.value.kind is Kind.FORBIDDEN


def test_a_response_about_an_object_without_authorization_is_a_bug() -> None:
    request = request_with(on_object(Verb.READ), "viewer", "team-a")

    with pytest.raises(AssertionError, match="/x: not authorized"):
        request.check_authorized()

    request.authorize("team-a")
    request.check_authorized()


def test_a_list_needs_no_authorization_as_a_whole_and_omits_what_the_caller_may_not_see() -> None:
    request = request_with(on_each(Verb.READ), "viewer", "team-*")

    request.check_authorized()
    assert [each for each in ("team-a", "ops", "team-b") if request.may_see(each)] == [
        "team-a",
        "team-b",
    ]


def test_only_monitoring_the_description_and_signed_webhooks_are_public() -> None:
    public = {each.path for each in OPERATIONS if each.permission.scope is Scope.PUBLIC}

    assert public == {"/livez", "/readyz", "/openapi.json", "/api/v1/webhooks/{document}"}


def test_only_the_first_key_is_created_without_a_credential() -> None:
    local = {each.path for each in OPERATIONS if each.permission.scope is Scope.LOCAL}

    assert local == {"/api/v1/auth:init"}


def test_each_operation_with_a_scope_of_objects_or_of_the_cluster_has_a_verb() -> None:
    without = {Scope.PUBLIC, Scope.ANYONE, Scope.LOCAL}

    for operation in OPERATIONS:
        is_needed = operation.permission.scope not in without
        assert (operation.permission.verb is not None) is is_needed, operation.name
