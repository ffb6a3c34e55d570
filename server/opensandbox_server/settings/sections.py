# SPDX-License-Identifier: Apache-2.0
"""The sections of the config file: every key, its default, its bounds and what it is for.

Keys that only a later part reads are accepted and checked here too, so that files written for the
published server load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

UserPath = Annotated[Path, AfterValidator(lambda path: path.expanduser())]
"""A path; ~ is the home directory."""

Port = Annotated[int, Field(ge=1, le=65535)]


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
    api_key: str = key("", "Key clients must send; empty makes one at the first start.")
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
    thread_pool_size: int = key(200, "Accepted; the server keeps one thread for its store.", ge=1)
    loop: Literal["auto", "asyncio", "uvloop"] = key("auto", "Event loop; auto is uvloop.")
    http: Literal["auto", "h11", "httptools"] = key("auto", "HTTP parser; auto is httptools.")


class Proxy(Section):
    """How requests to sandboxes are forwarded."""

    resolve_internal: bool = key(True, "Accepted; ingress always reaches a sandbox through execd.")


class Log(Section):
    """What is logged and where to."""

    level: str = key("INFO", "DEBUG, INFO, WARNING or ERROR.")
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
    endpoint: str = key("", "URL of the http provider.")
    max_stale_seconds: int = key(300, "How long an answer may be reused.", ge=0)
    timeout_seconds: float = key(5, "Longest wait for the provider.", gt=0)
    auth_header: str = key("", "Header sent to the provider.")
    auth_token: str = key("", "Value of that header.")


class RenewRedis(Section):
    """Renew intents from gateways of other machines."""

    enabled: bool = key(False, "Accepted; our ingress reports traffic by itself.")
    dsn: str = key("", "Address of the queue.")
    queue_key: str = key("opensandbox:renew:intent", "Name of the list.")
    consumer_concurrency: int = key(8, "Readers at once.", ge=1)


class RenewIntent(Section):
    """Traffic lengthens the life of sandboxes that ask for it."""

    enabled: bool = key(False, "Honour extensions[access.renew.extend.seconds].")
    min_interval_seconds: int = key(60, "At most one renewal in this time.", ge=1)
    redis: RenewRedis = key(RenewRedis(), "")


class Otel(Section):
    """Traces and metrics."""

    enabled: bool = key(False, "Accepted; export comes with a later part.")
    endpoint: str = key("", "Collector.")
    service_name: str = key("opensandbox-server", "Name in traces.")
    export_interval_millis: int = key(60000, "Between two exports.", ge=1)


class RuntimeChoice(Section):
    """Which runtime makes sandboxes."""

    type: str = key(
        "oci", "oci (embedded, needs no daemon), docker, kubernetes, or an installed one."
    )
    execd_image: str = key("", "Accepted; execd comes with the server.")
    execd_run_as_init: bool = key(False, "Accepted; execd is always the first process.")

    @field_validator("type")
    @classmethod
    def _use_one_name(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("must name a runtime")
        return {"k8s": "kubernetes"}.get(name.strip().lower(), name.strip().lower())


DROPPED_BY_DOCKER = (
    "AUDIT_WRITE",
    "MKNOD",
    "NET_ADMIN",
    "NET_RAW",
    "SYS_ADMIN",
    "SYS_MODULE",
    "SYS_PTRACE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
)


class Docker(Section):
    """The docker runtime, which comes with a later part."""

    network_mode: str = key("host", "host, bridge or the name of a network.")
    api_timeout: int = key(180, "Seconds the engine may take.", ge=1)
    host_ip: str = key("", "Address of the host as clients see it.")
    drop_capabilities: tuple[str, ...] = key(DROPPED_BY_DOCKER, "Taken from sandboxes.")
    apparmor_profile: str = key("", "Profile of sandboxes.")
    no_new_privileges: bool = key(True, "No process gains privileges.")
    seccomp_profile: str = key("", "Profile of sandboxes.")
    port_range_min: Port = key(40000, "First port published on the host.")
    port_range_max: Port = key(60000, "Last port published on the host.")
    publish_host: str = key("0.0.0.0", "Address ports are published on.")
    pids_limit: int | None = key(4096, "Processes a sandbox may have.", ge=1)
    sandbox_env: dict[str, str] = key({}, "Environment of every sandbox.")
    sandbox_binds: tuple[str, ...] = key((), "Mounts of every sandbox.")

    @model_validator(mode="after")
    def _have_enough_ports(self) -> Docker:
        if self.port_range_max - self.port_range_min < 100:
            raise ValueError("port_range_max must be at least 100 above port_range_min")
        return self


class Kubernetes(Section):
    """The kubernetes runtime, which comes with a later part."""

    kubeconfig_path: str = key("", "Empty uses the pod's own account.")
    insecure_skip_tls_verify: bool = key(False, "Trust any API server.")
    namespace: str = key("", "Where sandboxes are made.")
    service_account: str = key("", "Accepted; no longer used.")
    workload_provider: str = key("", "Kind of object that makes pods.")
    batchsandbox_template_file: str = key("", "Template of BatchSandbox objects.")
    sandbox_create_timeout_seconds: int = key(60, "Longest create.", ge=1)
    sandbox_create_poll_interval_seconds: float = key(1.0, "Between two looks.", gt=0)
    snapshot_create_timeout_seconds: int = key(600, "Accepted; no longer used.", ge=1)
    pool_acquisition_timeout_seconds: int = key(30, "Longest wait for a pool.", ge=1)
    image_pull_policy: str = key("IfNotPresent", "Always, IfNotPresent or Never.")
    execd_init_resources: dict[str, dict[str, str]] = key({}, "limits and requests of that step.")
    informer_enabled: bool = key(True, "Accepted; no longer used.")
    informer_resync_seconds: int = key(300, "Between two full lists.", ge=1)
    informer_watch_timeout_seconds: int = key(60, "Length of one watch.", ge=1)
    read_qps: float = key(0, "Reads a second; 0 is no limit.", ge=0)
    read_burst: int = key(0, "Reads at once; 0 is no limit.", ge=0)
    write_qps: float = key(0, "Writes a second; 0 is no limit.", ge=0)
    write_burst: int = key(0, "Writes at once; 0 is no limit.", ge=0)
    fastpath_endpoint: str = key(
        "fast-sandbox-fastpath.opensandbox.svc:9090", "Provider of micro-VM sandboxes."
    )
    fastpath_timeout_seconds: float = key(30, "Longest call to it.", gt=0)
    fastpath_wait_ready_seconds: float = key(30, "Longest wait for it.", gt=0)
    fastpath_resource_pool: str = key("default-pool", "Its pool.")
    template_s3_publish_secret: str = key("sandbox-oss-credentials", "Its secret.")


class AgentSandbox(Section):
    """Objects of kubernetes-sigs/agent-sandbox, which come with a later part."""

    template_file: str = key("", "Template of Sandbox objects.")
    shutdown_policy: Literal["Delete", "Retain"] = key("Delete", "What an expired one becomes.")
    ingress_enabled: bool = key(True, "Reach them through ingress.")


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


class UpstreamProxy(Section):
    """A proxy between egress and the world."""

    url: str = key("", "Address.")
    authorization: str = key("", "Header value.")
    ca_cert_path: str = key("", "Certificates to trust.")
    ca_secret_name: str = key("", "The same on Kubernetes.")


class Egress(Section):
    """What may go out of sandboxes; enforcing it comes with a later part."""

    image: str = key("", "Accepted; egress comes with the server.")
    mode: Literal["dns", "dns+nft"] = key("dns", "How policies are enforced.")
    disable_ipv6: bool = key(True, "Sandboxes with a policy have no IPv6.")
    otlp_endpoint: str = key("", "Collector.")
    readiness_timeout_seconds: float = key(30, "Longest wait for egress.", gt=0)
    requests: dict[str, str] = key({}, "Resources on Kubernetes.")
    limits: dict[str, str] = key({}, "Resources on Kubernetes.")
    upstream_proxy: UpstreamProxy = key(UpstreamProxy(), "")


class Storage(Section):
    """What may be mounted into sandboxes; volumes come with a later part."""

    allowed_host_paths: tuple[str, ...] = key((), "Prefixes; an empty list refuses all.")
    volume_default_size: str = key("1Gi", "Size of a volume that names none.")
    ossfs_mount_root: str = key("/mnt/ossfs", "Where buckets are mounted.")


class Postgresql(Section):
    """A store shared by several servers; it comes with a later part."""

    dsn: str = key("", "Address.", repr=False)
    min_pool_size: int = key(1, "Connections kept.", ge=0)
    max_pool_size: int = key(10, "Most connections.", ge=1)
    connect_timeout_seconds: float = key(5, "Longest connect.", gt=0)
    pool_timeout_seconds: float = key(5, "Longest wait for a connection.", gt=0)
    snapshot_recovery_interval_seconds: float = key(15, "Between two looks.", gt=0)


class Store(Section):
    """Where the server remembers."""

    type: Literal["sqlite", "postgresql"] = key("sqlite", "sqlite is one file.")
    path: UserPath | None = key(None, "That file; by default opensandbox.db in data_dir.")
    postgresql: Postgresql = key(Postgresql(), "")


class SecureRuntime(Section):
    """Stronger isolation by default."""

    type: Literal["", "gvisor", "kata", "firecracker"] = key("", "Empty is the runtime's default.")
    docker_runtime: str = key("", "Its name in the Docker engine.")
    k8s_runtime_class: str = key("", "Its RuntimeClass.")
