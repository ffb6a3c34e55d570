# SPDX-License-Identifier: Apache-2.0
"""Reads `specs/execd.yaml`."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

SPECIFICATION = Path(__file__).resolve().parents[2] / "specs" / "execd.yaml"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """Return its operationId."""
        return str(self.body["operationId"])

    @property
    def shape(self) -> str:
        """Return its path with parameters unnamed, since their names are nobody's business."""
        return re.sub(r"{[^}]*}", "{}", self.path)


@functools.cache
def document() -> dict[str, Any]:
    """Return the whole specification."""
    loaded: dict[str, Any] = yaml.load(SPECIFICATION.read_text(), yaml.CSafeLoader)
    return loaded


def operations() -> Iterator[Operation]:
    """Yield every operation."""
    for path, item in document()["paths"].items():
        for method in METHODS:
            if method in item:
                yield Operation(method, path, item[method])


def resolve(value: Any) -> Any:
    """Follow a reference within the specification, if it is one."""
    while isinstance(value, dict) and "$ref" in value:
        target: Any = document()
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


@functools.cache
def validator(reference: str) -> jsonschema.Draft202012Validator:
    """Return a validator for the schema at ``#/components/schemas/…``."""
    schema = {"$ref": reference, "components": document()["components"]}
    return jsonschema.Draft202012Validator(schema)
