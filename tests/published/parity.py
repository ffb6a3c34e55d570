# SPDX-License-Identifier: Apache-2.0
"""Compares two surfaces as `surface.py` describes them: what a program could trip over."""

from collections.abc import Iterator
from typing import Any

Description = dict[str, Any]

# Called by the language, with positions only.
_POSITIONAL = ("__exit__", "__aexit__")


def differences(published: Description, ours: Description) -> list[str]:
    """Return what the published surface has and ours has not, or has otherwise."""
    return [
        f"{module}:{fault}"
        for module, names in published.items()
        for fault in _in_names(names, ours[module])
    ]


def _in_names(published: Description, ours: Description) -> Iterator[str]:
    for name, description in published.items():
        if name not in ours:
            yield f"{name}: is missing"
        else:
            yield from _in_one(name, description, ours[name])


def _in_one(name: str, published: Description, ours: Description) -> Iterator[str]:
    if published["kind"] != ours["kind"]:
        yield f"{name}: is {ours['kind']}, not {published['kind']}"
    for base in published.get("bases", ()):
        if base not in ours.get("bases", ()):
            yield f"{name}: is no {base}"
    yield from _in_values(name, published.get("values", {}), ours.get("values", {}))
    yield from _in_fields(name, published.get("fields", {}), ours.get("fields", {}))
    known = {**ours.get("values", {}), **ours.get("fields", {})}
    for member, description in published.get("members", {}).items():
        if member in ours["members"]:
            yield from _in_member(f"{name}.{member}", description, ours["members"][member])
        elif member not in known:
            yield f"{name}.{member}: is missing"


def _in_values(name: str, published: Description, ours: Description) -> Iterator[str]:
    for member, value in published.items():
        if ours.get(member) != value:
            yield f"{name}.{member}: is {ours.get(member)!r}, not {value!r}"


def _in_fields(name: str, published: Description, ours: Description) -> Iterator[str]:
    for field, description in published.items():
        if field not in ours:
            yield f"{name}.{field}: is missing"
        elif not description["required"] and ours[field] != description:
            yield f"{name}.{field}: is {ours[field]}, not {description}"
    for field in ours.keys() - published.keys():
        if published and ours[field]["required"]:
            yield f"{name}.{field}: is required here only"


def _in_member(name: str, published: Description, ours: Description) -> Iterator[str]:
    plain = {"property", "attribute"}  # a reader cannot tell one from the other
    if published["kind"] != ours["kind"] and not {published["kind"], ours["kind"]} <= plain:
        yield f"{name}: is {ours['kind']}, not {published['kind']}"
    elif "parameters" in published and not name.endswith(_POSITIONAL):
        if published["is_async"] != ours["is_async"]:
            yield f"{name}: is awaited on one side only"
        yield from _in_parameters(name, published["parameters"], ours["parameters"])


def _in_parameters(name: str, published: list[Any], ours: list[Any]) -> Iterator[str]:
    by_name = {parameter["name"]: parameter for parameter in ours}
    for parameter in published:
        found = by_name.get(parameter["name"])
        if found is None:
            yield f"{name}({parameter['name']}): is missing"
        elif found["kind"] != parameter["kind"]:
            yield f"{name}({parameter['name']}): is {found['kind']}, not {parameter['kind']}"
        elif parameter["default"] not in ("required", "some", found["default"]):
            yield f"{name}({parameter['name']}): {found['default']}, not {parameter['default']}"
    wanted = [p["name"] for p in published if p["kind"] == "POSITIONAL_OR_KEYWORD"]
    given = [p["name"] for p in ours if p["kind"] == "POSITIONAL_OR_KEYWORD"]
    if given[: len(wanted)] != wanted:
        yield f"{name}: takes its arguments in another order"
    for added in by_name.keys() - {parameter["name"] for parameter in published}:
        if by_name[added]["default"] == "required":
            yield f"{name}({added}): is required here only"
