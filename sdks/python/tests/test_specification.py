# SPDX-License-Identifier: Apache-2.0
"""`specs/lifecycle.yaml` is valid, says everything outright, and agrees with the wire types."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
import yaml

from opensandbox import models
from opensandbox.models import WireModel
from sdks.python.tests.test_models import IMAGE

SPECIFICATION = Path(__file__).parents[3] / "specs" / "lifecycle.yaml"
DOCUMENT: dict[str, Any] = yaml.load(SPECIFICATION.read_text(), yaml.CSafeLoader)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
METHODS = ("get", "put", "post", "patch", "delete")

MODELS: dict[str, type[WireModel]] = {
    "CreateSandbox": models.CreateSandboxRequest,
    "CreatedSandbox": models.SandboxCreateResponse,
    "CreateSnapshot": models.CreateSnapshotRequest,
    "CreateTemplate": models.CreateTemplateRequest,
    "DiagnosticContent": models.DiagnosticContent,
    "Error": models.ErrorBody,
    "Expiration": models.RenewExpirationRequest,
    "Health": models.Health,
    "Readiness": models.Readiness,
    "Hook": models.LifecycleHook,
    "Hooks": models.SandboxLifecycle,
    "Image": models.SandboxImageSpec,
    "MetricsEvent": models.ClientMetricsEvent,
    "NetworkPolicy": models.NetworkPolicy,
    "NetworkPolicyStatus": models.NetworkPolicyStatus,
    "NetworkRule": models.NetworkRule,
    "Pagination": models.PaginationInfo,
    "PeriodicHook": models.PeriodicLifecycleHook,
    "Platform": models.PlatformSpec,
    "Sandbox": models.SandboxInfo,
    "SandboxPage": models.PagedSandboxInfos,
    "Snapshot": models.SnapshotInfo,
    "SnapshotPage": models.PagedSnapshotInfos,
    "Status": models.SandboxStatus,
    "Template": models.TemplateInfo,
    "TemplatePage": models.PagedTemplateInfos,
    "TemplateReadiness": models.TemplateReadiness,
    "Version": models.ServerVersion,
    "Volume": models.Volume,
}


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every operation with its path."""
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, item[method]


def test_the_specification_is_valid_openapi() -> None:
    openapi_spec_validator.validate(DOCUMENT)


def test_every_operation_says_each_answer_outright() -> None:
    for path, operation in operations():
        answers = set(operation["responses"])
        assert all(re.fullmatch("[1-5][0-9][0-9]", answer) for answer in answers), path
        assert "open" in operation["tags"] or "401" in answers, path


def test_operation_ids_are_unique() -> None:
    counts = Counter(operation["operationId"] for _, operation in operations())
    assert [name for name, count in counts.items() if count > 1] == []


def test_what_is_not_built_says_so_and_how() -> None:
    unbuilt = {"snapshots", "templates", "pools", "network policy"}
    for path, operation in operations():
        if unbuilt & set(operation["tags"]):
            assert "501" in operation["responses"], path
            assert re.search("Not built yet, 501 `[A-Z:_]+`", operation["description"]), path


def test_every_component_is_used() -> None:
    text = SPECIFICATION.read_text()
    for section, components in DOCUMENT["components"].items():
        for name in components if section != "securitySchemes" else ():
            assert f'#/components/{section}/{name}"' in text, f"{section}/{name}"


@pytest.mark.parametrize("name", MODELS)
def test_a_wire_type_has_the_fields_of_its_schema(name: str) -> None:
    model = MODELS[name]
    fields = {info.serialization_alias or "": info for info in model.model_fields.values()}
    schema = SCHEMAS[name]
    assert set(fields) == set(schema["properties"])
    required = {alias for alias, info in fields.items() if info.is_required()}
    assert name in {"Health", "Readiness"} or required == set(schema.get("required", []))
    assert (schema.get("additionalProperties") is False) == (
        model.model_config.get("extra") == "forbid"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {**IMAGE, "timeout": 59},
        {**IMAGE, "timeout": "soon"},
        {**IMAGE, "image": "a"},
        {**IMAGE, "entrypoint": []},
        {**IMAGE, "env": {"A": 1}},
        {**IMAGE, "metadata": {"a": None}},
        {**IMAGE, "lifecycle": {"postStop": {}}},
        {**IMAGE, "networkPolicy": {"defaultAction": "maybe"}},
    ],
)
def test_the_schema_refuses_what_the_model_refuses(fields: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/CreateSandbox", "components": DOCUMENT["components"]}
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(IMAGE)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(fields)
    with pytest.raises(ValueError, match="validation error"):
        models.CreateSandboxRequest.model_validate(fields)
