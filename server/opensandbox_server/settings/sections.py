# SPDX-License-Identifier: Apache-2.0
"""The sections of the config file: every key, its default, its bounds and what it is for.

The tables of runtimes are their own. What only the published server reads is in published.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

UserPath = Annotated[Path, AfterValidator(lambda path: path.expanduser())]
"""A path; ~ is the home directory."""


def key(default: Any, meaning: str, **bounds: Any) -> Any:
    """Declare one key: its default, the sentence that documents it, and its bounds."""
    return Field(default, description=meaning, **bounds)


class Section(BaseModel):
    """A table of the config file. Unknown keys are refused; values never change after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Server(Section):
    """Where the server listens and where it keeps what it knows."""

    host: str = key("127.0.0.1", "Address to listen on; 0.0.0.0 listens on every interface.")
    port: int = key(8080, "The one public port; 0 takes any free one.", ge=0, le=65535)
    api_key: str = key("", "Key clients must send; empty makes one at the first start.", repr=False)
    eip: str = key("", "Public host[:port] put into endpoints instead of the one the client used.")
    data_dir: UserPath = key(Path("~/.opensandbox"), "Database, images, sandboxes, sockets.")
    bin_dir: UserPath | None = key(None, "Where execd and ingress are, when not beside the server.")
    domain: str = key("localhost", "Browsers reach ports at <id>-<port>.<domain>.")
    ingress_user: str = key(
        "", "user or uid:gid ingress runs as when the server is root; empty: one of its own."
    )
    max_sandbox_timeout_seconds: int | None = key(
        None,
        "Longest life, from now, that a create or a renewal may ask for; a create must ask then.",
        ge=60,
    )
    timeout_keep_alive: int = key(30, "Seconds an idle API connection is kept.", ge=0)
    limit_concurrency: int = key(1024, "Most API requests at once; 0 is no limit.", ge=0)
    timeout_graceful_shutdown: int = key(5, "Seconds open requests get at the end.", ge=0)
    backlog: int = key(2048, "Connections the kernel queues.", ge=1)
    loop: Literal["auto", "asyncio", "uvloop"] = key("auto", "Event loop; auto is uvloop.")
    http: Literal["auto", "h11", "httptools"] = key("auto", "HTTP parser; auto is httptools.")


class Log(Section):
    """What is logged and where to."""

    level: str = key("INFO", "DEBUG, INFO, WARNING or ERROR.")
    format: Literal["text", "json"] = key("text", "text for people, json for programs.")
    file_enabled: bool = key(False, "Also write to file_path.")
    file_path: UserPath = key(Path("~/logs/opensandbox/server.log"), "The log file.")
    access_file_path: UserPath = key(Path("~/logs/opensandbox/access.log"), "One line a request.")
    file_max_bytes: int = key(104857600, "A log file is rotated at this size.", ge=1)
    file_backup_count: int = key(5, "Rotated files kept.", ge=0)

    @field_validator("level")
    @classmethod
    def _know_level(cls, level: str) -> str:
        if level.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
            raise ValueError("must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
        return level.upper()


class Tenants(Section):
    """Several owners on one server; serving them comes with a later part."""

    provider: Literal["file", "http"] | None = key(None, "Where tenants are looked up.")


class RenewIntent(Section):
    """Traffic lengthens the life of sandboxes that ask for it."""

    enabled: bool = key(False, "Honour extensions[access.renew.extend.seconds].")
    min_interval_seconds: int = key(60, "At most one renewal in this time.", ge=1)


class Otel(Section):
    """Traces of requests for an OpenTelemetry collector."""

    enabled: bool = key(False, "Export them; needs opensandbox-server[otel].")
    endpoint: str = key(
        "", "Address of the collector (OTLP over HTTP); empty is OTEL_EXPORTER_OTLP_ENDPOINT."
    )
    service_name: str = key("opensandbox-server", "Name of this server in traces.")
    export_interval_millis: int = key(60000, "Longest wait of a span until it is sent.", ge=1)


class RuntimeChoice(Section):
    """Which runtime makes sandboxes."""

    type: str = key(
        "oci", "oci (embedded, needs no daemon), docker, kubernetes, or an installed one."
    )

    @field_validator("type")
    @classmethod
    def _use_one_name(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("must name a runtime")
        return {"k8s": "kubernetes"}.get(name.strip().lower(), name.strip().lower())


class GatewayRoute(Section):
    """How a gateway knows the sandbox a request is for."""

    mode: Literal["wildcard", "header", "uri"] = key("wildcard", "By host, by header or by path.")


class Gateway(Section):
    """A public name in front of the server."""

    address: str = key("", "host[:port]; for wildcard the domain under which sandboxes appear.")
    route: GatewayRoute = key(GatewayRoute(), "")

    @field_validator("address")
    @classmethod
    def _take_no_scheme(cls, address: str) -> str:
        if "://" in address:
            raise ValueError("must have no scheme: clients put their own before it")
        return address.removeprefix("*.").rstrip("/")


class SigningKey(Section):
    """One key of signed routes."""

    key_id: str = key(..., "One character of 0-9a-z.", pattern="^[0-9a-z]$")
    key: str = key(..., "Base64, at least 16 bytes.", repr=False)

    @field_validator("key")
    @classmethod
    def _decode(cls, text: str) -> str:
        from base64 import b64decode

        if len(b64decode(text, validate=True)) < 16:
            raise ValueError("must be base64 of at least 16 bytes")
        return text


class SecureAccess(Section):
    """Keys of signed routes. Without any, the server makes one and keeps it in its data."""

    active_key: str = key("", "Id of the key that signs; empty takes the first.")
    keys: tuple[SigningKey, ...] = key((), "All of these verify.")
    accepts_short_signatures: bool = key(False, "Also accept the published 8-digit form.")

    @model_validator(mode="after")
    def _have_active(self) -> SecureAccess:
        ids = [entry.key_id for entry in self.keys]
        if len(ids) != len(set(ids)):
            raise ValueError("keys: every key_id may appear once")
        if self.active_key and self.active_key not in ids:
            raise ValueError("active_key: no key has this id")
        return self


class Ingress(Section):
    """How endpoints look from outside."""

    mode: Literal["direct", "gateway"] = key("direct", "direct uses the server's own address.")
    gateway: Gateway = key(Gateway(), "")
    secure_access: SecureAccess = key(SecureAccess(), "")
    max_connections: int = key(
        0, "Most connections of clients; 0 is what open files allow, at most 65536.", ge=0
    )
    max_connections_per_peer: int = key(
        0, "Most from one address, except this machine's; 0 is half of all.", ge=0
    )

    @model_validator(mode="after")
    def _know_gateway(self) -> Ingress:
        if self.mode == "gateway" and not self.gateway.address:
            raise ValueError("gateway.address: needed when mode is gateway")
        return self


def _take_address(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if url and scheme not in {"postgresql", "postgres"}:
        raise ValueError("must be like postgresql://user@host:5432/database")
    if any("@" in part for part in re.split("[/?#]", rest)[1:]):
        raise ValueError("must have / ? # @ of a password as %2F %3F %23 %40; see also PGPASSFILE")
    return url


Address = Annotated[str, AfterValidator(_take_address)]
"""Of a PostgreSQL database; a password may be in it."""


class Postgresql(Section):
    """The connections to PostgreSQL."""

    dsn: Address = key("", "The published name of store.url; it wins.", repr=False)
    min_pool_size: int = key(1, "Connections kept.", ge=0)
    max_pool_size: int = key(10, "Most connections.", ge=1)
    connect_timeout_seconds: float = key(5, "Longest connect.", gt=0)
    pool_timeout_seconds: float = key(5, "Longest wait for a connection.", gt=0)
    snapshot_recovery_interval_seconds: float = key(15, "Has no effect here.", gt=0)


class Store(Section):
    """Where the server remembers."""

    type: Literal["sqlite", "postgres"] = key(
        "sqlite", "sqlite is one file; postgres (or postgresql) needs opensandbox-server[postgres]."
    )
    path: UserPath | None = key(None, "The file of sqlite; by default opensandbox.db in data_dir.")
    url: Address = key(
        "", "postgresql://user@host:5432/database; the password better by PGPASSFILE.", repr=False
    )
    postgresql: Postgresql = key(Postgresql(), "")

    @field_validator("type", mode="before")
    @classmethod
    def _use_one_name(cls, name: object) -> object:
        return "postgres" if name == "postgresql" else name

    @model_validator(mode="after")
    def _know_database(self) -> Store:
        if self.type == "postgres" and not (self.url or self.postgresql.dsn):
            raise ValueError("url: needed when type is postgres")
        return self


class SecureRuntime(Section):
    """Stronger isolation by default."""

    type: Literal["", "gvisor", "kata", "firecracker"] = key("", "Empty is the runtime's default.")
