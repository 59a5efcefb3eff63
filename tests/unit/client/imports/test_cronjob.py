"""CronJobs of Kubernetes as definitions of jobs."""

import json

import pytest
import yaml

from rota.client.definitions import InvalidFile
from unit.client.imports.accepted import import_text, notes_of, only_job

HELLO = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: hello
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: hello
            image: busybox:1.28
            imagePullPolicy: IfNotPresent
            command:
            - /bin/sh
            - -c
            - date; echo Hello from the cluster
          restartPolicy: OnFailure
"""
CONTAINER = "          - name: hello\n"


def with_spec(*lines: str) -> str:
    """Return the manifest with further lines of its spec; the first is line 6."""
    return HELLO.replace("spec:\n", "spec:\n" + "".join(f"  {line}\n" for line in lines), 1)


def with_container(*lines: str) -> str:
    """Return the manifest with further lines of its container; the first is line 13."""
    return HELLO.replace(CONTAINER, CONTAINER + "".join(f"            {line}\n" for line in lines))


def test_the_first_example_is_carried_over() -> None:
    result = import_text("cronjob", HELLO)

    assert only_job(result) == {
        "name": "hello",
        "schedule": "* * * * *",
        "retries": {"limit": 6, "delay": "10s", "maxDelay": "6m"},
        "stopGrace": "30s",
        "container": {"image": "busybox:1.28", "pull": "missing"},
        "command": ["/bin/sh", "-c", "date; echo Hello from the cluster"],
    }
    assert result.report == []
    assert result.jobs[0].next[0] == "2027-01-01T00:01:00+00:00"


def test_a_time_zone_is_that_of_the_fire_times() -> None:
    manifest = with_spec("timeZone: Asia/Tokyo").replace("* * * * *", "30 6 * * 1")

    assert import_text("cronjob", manifest).jobs[0].next[0] == "2027-01-04T06:30:00+09:00"


def test_a_zone_in_the_schedule_is_the_time_zone() -> None:
    job = only_job(
        import_text("cronjob", HELLO.replace("* * * * *", "CRON_TZ=Asia/Tokyo 0 6 * * *"))
    )

    assert (job["schedule"], job["timezone"]) == ("0 6 * * *", "Asia/Tokyo")


def test_a_step_of_all_days_and_a_weekday_are_alternatives() -> None:
    result = import_text("cronjob", HELLO.replace("* * * * *", "0 0 */10 * MON"))

    days = [fire[:10] for fire in result.jobs[0].next]
    assert days == ["2027-01-04", "2027-01-11", "2027-01-18"]
    assert only_job(result)["schedule"] == "0 0 1-31/10 * MON"


def test_a_suspended_job_has_no_schedule() -> None:
    result = import_text("cronjob", with_spec("suspend: true"))

    assert "schedule" not in only_job(result)
    assert notes_of(result) == [(6, "lost", "suspend:")]
    assert '"* * * * *"' in result.report[0].remedy


@pytest.mark.parametrize(
    ("lines", "overlap", "notes"),
    [
        (["concurrencyPolicy: Allow"], None, []),
        (["concurrencyPolicy: Forbid"], "queue_one", []),
        (
            ["concurrencyPolicy: Forbid", "startingDeadlineSeconds: 60"],
            "skip",
            [(6, "changed", "Forbid:")],
        ),
        (["concurrencyPolicy: Replace"], "cancel_running", []),
    ],
)
def test_a_concurrency_policy_is_an_overlap_policy(
    lines: list[str], overlap: str | None, notes: list[tuple[int, str, str]]
) -> None:
    result = import_text("cronjob", with_spec(*lines))

    assert only_job(result).get("overlap") == overlap
    assert notes_of(result) == notes


def test_deadlines_and_retries_are_limits() -> None:
    manifest = with_spec("startingDeadlineSeconds: 200").replace(
        "    spec:\n      template:",
        "    spec:\n      backoffLimit: 0\n      activeDeadlineSeconds: 600\n      template:",
    )

    job = only_job(import_text("cronjob", manifest))

    assert (job["misfire"], job["grace"]) == ("skip", "200s")
    assert job["executionTimeout"] == "600s"
    assert "retries" not in job


def test_history_limits_are_lost_with_their_lines() -> None:
    result = import_text(
        "cronjob", with_spec("successfulJobsHistoryLimit: 3", "failedJobsHistoryLimit: 1")
    )

    assert notes_of(result) == [
        (6, "lost", "successfulJobsHistoryLimit"),
        (7, "lost", "failedJobsHistoryLimit"),
    ]


def test_variables_are_carried_over_unless_they_are_from_other_objects() -> None:
    result = import_text(
        "cronjob",
        with_container(
            "args: [$(GREETING), $$(GREETING), $(NONE)]",
            "env:",
            "- {name: WHO, value: world}",
            "- {name: GREETING, value: hello $(WHO)}",
            "- name: PASSWORD",
            "  valueFrom: {secretKeyRef: {name: db, key: password}}",
            "envFrom: [{configMapRef: {name: settings}}]",
        ),
    )

    job = only_job(result)
    assert job["env"] == {"WHO": "world", "GREETING": "hello world"}
    assert job["command"][3:] == ["hello world", "$(GREETING)", "$(NONE)"]
    assert notes_of(result) == [(18, "lost", "the"), (19, "lost", "envFrom")]


def test_arguments_of_an_entry_point_are_lost() -> None:
    manifest = HELLO.replace("            command:", "            args:")

    assert notes_of(import_text("cronjob", manifest)) == [(15, "lost", "args")]


def test_limits_are_carried_over_and_requests_are_lost() -> None:
    resources = (
        "resources: {limits: {cpu: 500m, memory: 128Mi, nvidia.com/gpu: 1}, requests: {cpu: 1}}"
    )

    result = import_text("cronjob", with_container(resources))

    assert only_job(result)["limits"] == {"cpu": 0.5, "memory": "128MiB"}
    assert notes_of(result) == [(13, "lost", "nvidia.com/gpu"), (13, "lost", "requests")]


@pytest.mark.parametrize(
    ("image", "pull"),
    [
        ("app", "always"),
        ("host:5000/app", "always"),
        ("app:latest", "always"),
        ("app:1", "missing"),
    ],
)
def test_the_tag_decides_when_an_image_is_pulled(image: str, pull: str) -> None:
    manifest = HELLO.replace("            imagePullPolicy: IfNotPresent\n", "")

    job = only_job(import_text("cronjob", manifest.replace("busybox:1.28", image)))

    assert job["container"] == {"image": image, "pull": pull}


def test_other_containers_and_volumes_are_lost() -> None:
    manifest = (
        HELLO + "          - {name: proxy, image: proxy}\n          volumes: [{name: data}]\n"
    )
    manifest = manifest.replace("          restartPolicy: OnFailure\n", "")

    assert notes_of(import_text("cronjob", manifest)) == [
        (19, "lost", "the"),
        (20, "lost", "volumes"),
    ]


def test_documents_lists_and_json_are_read() -> None:
    one = yaml.safe_load(HELLO)
    one["metadata"] |= {"namespace": "team", "labels": {"app": "hello"}}
    several = {"apiVersion": "v1", "kind": "List", "items": [one]}

    documents = import_text(
        "cronjob", f"{HELLO}---\nkind: ConfigMap\n---\n{yaml.safe_dump(several)}"
    )
    as_json = import_text("cronjob", json.dumps(several, indent="\t"))

    assert [job.definition.get("namespace") for job in documents.jobs] == [None, "team"]
    assert [job.definition["name"] for job in documents.jobs] == ["hello", "hello"]
    assert notes_of(documents) == [(21, "lost", "the")]
    assert only_job(as_json)["labels"] == {"app": "hello"}
    assert as_json.jobs[0].line == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HELLO.replace("* * * * *", "61 * * * *"), "file:6: .*minute 61"),
        (HELLO.replace("  name: hello\nspec", "  labels: {}\nspec"), "file:3: .*metadata.name"),
        (HELLO.replace("image: busybox:1.28", "image:"), "file:12: .*no image"),
        (with_spec("suspend: maybe"), "file:6: suspend is 'maybe'"),
        (with_spec("timeZone: Mars/Base"), "file:7: .*Mars/Base"),
        (with_spec("concurrencyPolicy: Never"), "file:6: .*Allow, Forbid or Replace"),
        ("kind: CronJob\n  x: y: z", "file:2: "),
        ('{\n"kind": }', "file:2: "),
        ("text", "file:1: .*no object"),
        ("[1]", "file:1: .*a list of objects"),
    ],
)
def test_an_invalid_manifest_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("cronjob", text)
