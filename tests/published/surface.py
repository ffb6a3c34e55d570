# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The types are those of whichever package of this name the interpreter has.
"""Describes the public surface of the client packages of the running interpreter.

    python surface.py MODULE[:CLASS]...

Prints JSON: what was asked for, its public names, and what each is. Functions have their
parameters, classes their public members, models their fields, enumerations their values.
"""

import dataclasses
import enum
import importlib
import inspect
import json
import sys
import types

PACKAGES = ("opensandbox", "code_interpreter")
SIMPLE = (bool, int, float, str, type(None))
SPECIAL = ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__")


def main(wanted: list[str]) -> None:
    """Print what modules and classes have."""
    print(json.dumps({name: surface(*name.split(":")) for name in wanted}))


def surface(module: str, name: str = "") -> dict:
    """Return what a module has, or one class of it."""
    found = importlib.import_module(module)
    return {name: described(getattr(found, name))} if name else module_surface(found)


def module_surface(module: types.ModuleType) -> dict:
    """Return the public names of a module: those of `__all__`, else those it has of ours."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if not name.startswith("_") and is_ours(value)
    ]
    return {name: described(getattr(module, name)) for name in sorted(names)}


def is_ours(value: object) -> bool:
    """Tell what a module has of its own from what it imports from others."""
    home = getattr(value, "__module__", "") or ""
    return home.split(".")[0] in PACKAGES


def described(value: object) -> dict:
    """Return what something is, in plain values."""
    if inspect.isclass(value):
        return class_surface(value)
    if callable(value) and is_ours(value):
        return function_surface(value)
    return {"kind": "value"}


def class_surface(cls: type) -> dict:
    """Return the members of a class and its fields or values."""
    found = {"kind": "class", "bases": [base.__name__ for base in cls.__mro__ if is_ours(base)][1:]}
    if issubclass(cls, enum.Enum):
        found["values"] = {member.name: member.value for member in cls}
    elif hasattr(cls, "model_fields"):
        found["fields"] = model_fields(cls)
    elif dataclasses.is_dataclass(cls):
        found["fields"] = dataclass_fields(cls)
    return found | {"members": members(cls)}


def members(cls: type) -> dict:
    """Return the methods and properties of a class; its `__init__` unless that has the fields."""
    has_fields = hasattr(cls, "model_fields") or dataclasses.is_dataclass(cls)
    found = {}
    for name in sorted({name for base in cls.__mro__ for name in vars(base)}):
        if name.startswith("_") and (name not in SPECIAL or (has_fields and name == "__init__")):
            continue
        if name in internals(cls):
            continue
        raw = inspect.getattr_static(cls, name)
        home = next(base for base in cls.__mro__ if name in vars(base))
        if is_ours(home):
            found[name] = member(raw)
    return found


def internals(cls: type) -> set:
    """Return what a model has for pydantic, not for its users."""
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is None:
        return set()
    kinds = ("field_validators", "model_validators", "validators", "root_validators")
    validators = {name for kind in kinds for name in getattr(decorators, kind)}
    return validators | {"model_config", "model_post_init"}


def member(raw: object) -> dict:
    """Return what one attribute of a class is."""
    if isinstance(raw, property):
        return {"kind": "property"}
    inner = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    if inspect.isfunction(inner):
        return function_surface(inner) | {"kind": type(raw).__name__}
    return {"kind": "attribute"}


def function_surface(function: object) -> dict:
    """Return the parameters of a function and whether it is awaited."""
    if isinstance(function, types.ModuleType) or not hasattr(function, "__code__"):
        return {"kind": "value"}
    parameters = [
        {"name": p.name, "kind": p.kind.name, "default": default(p.default)}
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls")
    ]
    is_async = inspect.iscoroutinefunction(function)
    return {"kind": "function", "is_async": is_async, "parameters": parameters}


def model_fields(cls: type) -> dict:
    """Return the fields of a pydantic model."""
    return {
        name: {
            "required": info.is_required(),
            "default": "some" if info.is_required() else default(info.get_default()),
        }
        for name, info in cls.model_fields.items()
    }


def dataclass_fields(cls: type) -> dict:
    """Return the fields of a dataclass."""
    missing = dataclasses.MISSING
    return {
        field.name: {
            "required": field.default is missing and field.default_factory is missing,
            "default": "some" if field.default is missing else default(field.default),
        }
        for field in dataclasses.fields(cls)
    }


def default(value: object) -> object:
    """Return a default that can be compared as text, or that there is one."""
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, enum.Enum):
        return f"={value.value!r}"
    return f"={value!r}" if isinstance(value, SIMPLE) or hasattr(value, "days") else "some"


if __name__ == "__main__":
    main(sys.argv[1:])
