# SPDX-License-Identifier: Apache-2.0
"""Wire types: names on both sides, what is refused, and no null ever."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from opensandbox import models
from opensandbox.models.filesystem import EntryInfo, MoveEntry
from opensandbox.models.sandboxes import (
    CreateSandboxRequest,
    NetworkPolicy,
    PagedSandboxInfos,
    PaginationInfo,
    PlatformSpec,
    RenewExpirationRequest,
    SandboxEndpoint,
    SandboxFilter,
    SandboxImageSpec,
    SandboxInfo,
    SandboxLifecycle,
    SandboxMetrics,
    SandboxState,
    SandboxStatus,
    Volume,
)
from opensandbox.models.templates import CreateTemplateRequest

IMAGE: dict[str, Any] = {
    "image": {"uri": "a"},
    "entrypoint": ["sleep", "1"],
    "resourceLimits": {"cpu": "1"},
}
HOOK = {"name": "n", "schedule": "@hourly", "command": ["true"]}
POOL = {"poolRef": "warm"}


def test_a_full_request_survives_the_wire() -> None:
    wire = {
        **IMAGE,
        "platform": {"os": "linux", "arch": "arm64"},
        "timeout": 60,
        "resourceRequests": {"cpu": "500m"},
        "env": {"A": "1"},
        "metadata": {"team": "x"},
        "lifecycle": {
            "preStart": {"command": ["true"], "timeoutSeconds": 10800},
            "periodic": [{**HOOK, "timeoutSeconds": 300}],
        },
        "networkPolicy": {
            "defaultAction": "deny",
            "egress": [{"action": "allow", "target": "api.example.com"}],
        },
        "credentialProxy": {"enabled": True},
        "secureAccess": True,
        "volumes": [
            {
                "name": "v",
                "mountPath": "/data",
                "readOnly": True,
                "subPath": "s",
                "pvc": {
                    "claimName": "c",
                    "createIfNotExists": False,
                    "deleteOnSandboxTermination": True,
                    "storageClass": "fast",
                    "storage": "1Gi",
                    "accessModes": ["ReadWriteOnce"],
                },
            }
        ],
        "extensions": {"access.renew.extend.seconds": "300"},
    }
    assert CreateSandboxRequest.model_validate(wire).to_wire() == wire


@pytest.mark.parametrize(
    "fields",
    [
        IMAGE,
        {**IMAGE, "timeout": None},
        {**IMAGE, "env": {}, "metadata": {}, "extensions": {}},
        {**IMAGE, "snapshotId": "  "},
        {**IMAGE, "unknown": 1},
        {"snapshotId": "s", "resourceLimits": {}},
        {"snapshotId": "s", "resourceLimits": {}, "entrypoint": ["x"]},
        {"templateId": "t", "timeout": 60},
        {"templateId": "t", "timeout": 60, "env": {}, "networkPolicy": {}, "metadata": {"a": "b"}},
        {"extensions": POOL},
        {**IMAGE, "extensions": POOL},
        {**IMAGE, "credentialProxy": {"enabled": False}},
        {**IMAGE, "lifecycle": {}},
    ],
)
def test_a_request_that_makes_sense_is_taken(fields: dict[str, Any]) -> None:
    CreateSandboxRequest.model_validate(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {**IMAGE, "snapshotId": "s"},
        {**IMAGE, "image": {"uri": "  "}},
        {**IMAGE, "image": {"auth": {"username": "u", "password": "p"}}},
        {**IMAGE, "image": {"uri": "a", "auth": {"username": "u"}}},
        {**IMAGE, "image": "a"},
        {**IMAGE, "entrypoint": None},
        {**IMAGE, "entrypoint": []},
        {**IMAGE, "resourceLimits": None},
        {**IMAGE, "resourceLimits": {"cpu": 1}},
        {"snapshotId": "s"},
        {**IMAGE, "timeout": 59},
        {**IMAGE, "timeout": "soon"},
        {**IMAGE, "platform": {"os": "plan9", "arch": "amd64"}},
        {**IMAGE, "platform": {"os": "linux"}},
        {**IMAGE, "env": {"OPENSANDBOX_LIFECYCLE": "x"}},
        {**IMAGE, "env": {"A": 1}},
        {**IMAGE, "metadata": {"a": None}},
        {**IMAGE, "credentialProxy": {"enabled": True}},
        {**IMAGE, "networkPolicy": {"defaultAction": "maybe"}},
        {**IMAGE, "networkPolicy": {"egress": [{"action": "allow", "target": ""}]}},
        {**IMAGE, "volumes": [{"name": "v", "mountPath": "/d"}]},
        {**IMAGE, "lifecycle": {"postStop": {}}},
        {**IMAGE, "lifecycle": {"preStart": {"command": []}}},
        {**IMAGE, "lifecycle": {"preStart": {"command": ["a"], "timeoutSeconds": 10801}}},
        {**IMAGE, "lifecycle": {"periodic": [{**HOOK, "timeoutSeconds": 301}]}},
        {**IMAGE, "lifecycle": {"periodic": [HOOK, HOOK]}},
        {"templateId": "", "timeout": 60},
        {"templateId": "t"},
        {"extensions": POOL, "snapshotId": "s"},
        {"extensions": POOL, "lifecycle": {"preStart": {"command": ["a"]}}},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CreateSandboxRequest.model_validate(fields)


@pytest.mark.parametrize(
    "field",
    [
        {"image": {"uri": "a"}},
        {"snapshotId": "s"},
        {"entrypoint": ["a"]},
        {"env": {"A": "1"}},
        {"resourceLimits": {"cpu": "1"}},
        {"resourceRequests": {"cpu": "1"}},
        {"volumes": [{"name": "v", "mountPath": "/d", "host": {"path": "/h"}}]},
        {"platform": {"os": "linux", "arch": "amd64"}},
        {"credentialProxy": {"enabled": False}},
        {"secureAccess": True},
        {"lifecycle": {"preStart": {"command": ["a"]}}},
        {"extensions": POOL},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_template_allows_nothing_it_decides_itself(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"cannot be used with templateId"):
        CreateSandboxRequest.model_validate({"templateId": "t", "timeout": 60, **field})


def test_nulls_in_the_environment_are_dropped() -> None:
    request = CreateSandboxRequest.model_validate({**IMAGE, "env": {"A": None, "B": "b"}})
    assert request.env == {"B": "b"}


def test_a_platform_is_read_whatever_its_case() -> None:
    platform = PlatformSpec.model_validate({"os": " Linux ", "arch": "AMD64"})
    assert platform.to_wire() == {"os": "linux", "arch": "amd64"}


@pytest.mark.parametrize("backends", [{}, {"host": {"path": "/h"}, "pvc": {"claimName": "c"}}])
def test_a_volume_has_exactly_one_backend(backends: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of"):
        Volume.model_validate({"name": "v", "mountPath": "/d", **backends})


def test_an_image_is_given_by_position_by_name_or_by_wire_name() -> None:
    assert (
        SandboxImageSpec("a")
        == SandboxImageSpec(image="a")
        == SandboxImageSpec.model_validate({"uri": "a"})
    )


def test_secrets_are_not_shown() -> None:
    image = SandboxImageSpec("a", auth={"username": "u", "password": "hidden"})
    assert "hidden" not in repr(image)


def test_absent_fields_are_left_out_and_never_null() -> None:
    now = datetime.now(UTC)
    status = SandboxStatus(state=SandboxState.RUNNING)
    info = SandboxInfo(id="a", status=status, entrypoint=[], created_at=now)
    assert set(info.to_wire()) == {"id", "status", "entrypoint", "createdAt"}
    assert info.to_wire()["status"] == {"state": "Running"}
    assert SandboxEndpoint(endpoint="h:1").to_wire() == {"endpoint": "h:1"}


def test_a_page_has_its_wire_names() -> None:
    pagination = PaginationInfo.of(page=2, page_size=2, total_items=5)
    page = PagedSandboxInfos(sandbox_infos=[], pagination=pagination)
    assert page.to_wire() == {
        "items": [],
        "pagination": {
            "page": 2,
            "pageSize": 2,
            "totalItems": 5,
            "totalPages": 3,
            "hasNextPage": True,
        },
    }


@pytest.mark.parametrize(
    ("page", "total_items", "total_pages", "has_next"),
    [(1, 0, 0, False), (1, 20, 1, False), (1, 21, 2, True), (9, 21, 2, False)],
)
def test_pages_are_counted(page: int, total_items: int, total_pages: int, has_next: bool) -> None:
    pagination = PaginationInfo.of(page=page, page_size=20, total_items=total_items)
    assert (pagination.total_pages, pagination.has_next_page) == (total_pages, has_next)


def test_a_state_nobody_knows_is_fine() -> None:
    assert SandboxStatus.model_validate({"state": "Dreaming"}).state == "Dreaming"


@pytest.mark.parametrize(
    ("text", "hour"),
    [("2030-01-01T10:00:00Z", 10), ("2030-01-01T10:00:00", 10), ("2030-01-01T10:00:00+02:00", 8)],
)
def test_a_time_without_zone_is_utc(text: str, hour: int) -> None:
    request = RenewExpirationRequest.model_validate({"expiresAt": text})
    assert request.expires_at.astimezone(UTC).hour == hour


@pytest.mark.parametrize("value", [1900000000, "tomorrow", None])
def test_a_time_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        RenewExpirationRequest.model_validate({"expiresAt": value})


def test_a_policy_without_default_denies() -> None:
    assert NetworkPolicy().default_action == "deny"


def test_templates_and_hooks_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValidationError):
        CreateTemplateRequest.model_validate({"image": "a", "publish": "b", "size": 1})
    with pytest.raises(ValidationError):
        SandboxLifecycle.model_validate({"preStop": {"command": ["a"]}})


@pytest.mark.parametrize("wrong", [{"page": 0}, {"page_size": 0}])
def test_a_filter_counts_from_one(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SandboxFilter.model_validate(wrong)


def test_metrics_and_entries_are_read_as_execd_writes_them() -> None:
    metrics = SandboxMetrics.model_validate(
        {
            "cpu_count": 2,
            "cpu_used_pct": 12.5,
            "mem_total_mib": 100,
            "mem_used_mib": 10,
            "timestamp": 1,
        }
    )
    assert metrics.cpu_used_percentage == 12.5
    assert metrics.memory_total_in_mib == 100
    entry = EntryInfo.model_validate(
        {
            "path": "/a",
            "type": "file",
            "mode": 644,
            "owner": "root",
            "group": "root",
            "size": 1,
            "modified_at": "2026-01-01T00:00:00Z",
            "created_at": "2026-01-01T00:00:00Z",
        }
    )
    assert entry.entry_type == "file"


def test_a_move_has_two_names_for_each_end() -> None:
    assert MoveEntry(src="a", dest="b") == MoveEntry.model_validate(
        {"source": "a", "destination": "b"}
    )


def test_every_model_is_named_once_and_importable() -> None:
    assert len(models.__all__) == len(set(models.__all__))
    for name in models.__all__:
        assert getattr(models, name) is not None
