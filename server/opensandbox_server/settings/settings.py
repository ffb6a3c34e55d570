# SPDX-License-Identifier: Apache-2.0
"""Settings: read once from TOML and the environment, then frozen and passed in."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from opensandbox_server.errors import SettingsError
from opensandbox_server.settings import sections
from opensandbox_server.settings.published import WITHOUT_MEANING, take_out

DEFAULT_PATH = Path("~/.sandbox.toml")
PATH_VARIABLE = "SANDBOX_CONFIG_PATH"
INSECURE_VARIABLE = "OPENSANDBOX_INSECURE_SERVER"
_NOT_FROM_FILES = ("runtime_options", "ignored", "is_insecure")
_RUNTIMES = ("oci", "fake", "docker", "kubernetes")
"""Whose tables may be in a file, whichever of them is chosen."""


class Settings(sections.Section):
    """Everything an operator may choose."""

    server: sections.Server = sections.Server()
    log: sections.Log = sections.Log()
    tenants: sections.Tenants = sections.Tenants()
    renew_intent: sections.RenewIntent = sections.RenewIntent()
    otel: sections.Otel = sections.Otel()
    runtime: sections.RuntimeChoice = sections.RuntimeChoice()
    ingress: sections.Ingress = sections.Ingress()
    store: sections.Store = sections.Store()
    secure_runtime: sections.SecureRuntime = sections.SecureRuntime()
    runtime_options: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude=True)
    """Tables of runtimes, which check their own keys: ours, and the one named by runtime.type."""
    ignored: tuple[str, ...] = Field(default=(), exclude=True)
    """Keys of the file that mean nothing here; see published.py."""
    is_insecure: bool = Field(default=False, exclude=True)
    """No key at all: the operator said so in the environment."""

    @property
    def data_dir(self) -> Path:
        """Everything the server keeps is below it."""
        return self.server.data_dir.expanduser()

    @property
    def store_path(self) -> Path:
        """The SQLite file."""
        return self.store.path or self.data_dir / "opensandbox.db"

    @property
    def store_url(self) -> str:
        """The database of PostgreSQL; a password may be in it."""
        return self.store.postgresql.dsn or self.store.url


def find_config(chosen: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the config file to read; None when nobody wrote one. Raises SettingsError."""
    named = chosen or (Path(environ[PATH_VARIABLE]) if environ.get(PATH_VARIABLE) else None)
    path = (named or DEFAULT_PATH).expanduser()
    if path.is_file():
        return path
    if named:
        raise SettingsError(
            f"{path}: no such file; make one with: opensandbox-server init-config {path}"
        )
    return None


def load_settings(path: Path | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the file if there is one; the environment overrides it. Raises SettingsError."""
    tables = _read_toml(path) if path else {}
    _apply_environment(tables, environ)
    kept = {
        "runtime_options": _take_runtime_tables(tables),
        "ignored": take_out(tables),
        "is_insecure": environ.get(INSECURE_VARIABLE) == "YES",
    }
    place = str(path) if path else "environment"
    _refuse_strange_keys(tables, place)
    try:
        return Settings.model_validate(tables | kept)
    except ValidationError as fault:
        raise SettingsError(_explain(fault, place)) from fault


def change_settings(
    settings: Settings, server: Mapping[str, Any], runtime: str | None = None
) -> Settings:
    """Return settings with what the command line says on top. Raises SettingsError."""
    tables: dict[str, Any] = settings.model_dump()
    tables["server"].update(server)
    if runtime:
        tables["runtime"]["type"] = runtime
    kept = {name: getattr(settings, name) for name in _NOT_FROM_FILES}
    try:
        return Settings.model_validate(tables | kept)
    except ValidationError as fault:
        raise SettingsError(_explain(fault, "command line")) from fault


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise SettingsError(f"{path}: {fault}") from fault
    for reserved in _NOT_FROM_FILES:
        if reserved in tables:
            raise SettingsError(f"{path}: {reserved}: unknown key")
    return tables


def _apply_environment(tables: dict[str, Any], environ: Mapping[str, str]) -> None:
    def override(value: str, *path: str) -> None:
        table = tables
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value

    if api_key := environ.get("OPENSANDBOX_SERVER_API_KEY"):
        override(api_key, "server", "api_key")
    if dsn := environ.get("OPENSANDBOX_STORE_POSTGRESQL_DSN"):
        override(dsn, "store", "postgresql", "dsn")
    if keys := environ.get("OPENSANDBOX_SECURE_ACCESS_KEYS"):
        pairs = [entry.strip().partition("=") for entry in keys.split(",") if entry.strip()]
        access = tables.setdefault("ingress", {}).setdefault("secure_access", {})
        access["keys"] = [{"key_id": key_id, "key": key} for key_id, _, key in pairs]
    if active := environ.get("OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY"):
        override(active, "ingress", "secure_access", "active_key")


def _take_runtime_tables(tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    chosen = tables.get("runtime")
    names = set(_RUNTIMES)
    if isinstance(chosen, dict) and isinstance(chosen.get("type"), str):
        names.add(chosen["type"])
    names -= Settings.model_fields.keys()
    return {name: tables.pop(name) for name in sorted(names) if isinstance(tables.get(name), dict)}


def _refuse_strange_keys(tables: dict[str, Any], place: str) -> None:
    """Name what neither this server nor the published one has in a table of the latter alone."""
    for name, keys in WITHOUT_MEANING.items():
        left = tables.get(name) if name not in Settings.model_fields else None
        if isinstance(left, dict):
            strange = next(iter(left))
            raise SettingsError(f"{place}: {name}.{strange}: unknown key{_near(strange, keys)}")


def _explain(fault: ValidationError, place: str) -> str:
    """Say for every bad key: place, key, reason."""
    lines = []
    for error in fault.errors(include_url=False, include_input=False):
        name = ".".join(str(part) for part in error["loc"])
        reason = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            reason = "unknown key" + _suggest(error["loc"])
        lines.append(f"{place}: {name}: {reason}")
    return "\n".join(lines)


def _suggest(location: tuple[int | str, ...]) -> str:
    section: type[BaseModel] | None = Settings
    for part in location[:-1]:
        field = section.model_fields.get(str(part)) if section else None
        kind = field.annotation if field else None
        section = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return _near(str(location[-1]), section.model_fields if section else ())


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
