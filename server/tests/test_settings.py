# SPDX-License-Identifier: Apache-2.0
"""Config files: what loads, what is refused, and how that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from opensandbox_server.errors import SettingsError, StartupError
from opensandbox_server.settings.settings import Settings, find_config, load_settings
from opensandbox_server.settings.skeleton import EXAMPLES, skeleton, write_config

PUBLISHED = """
[server]
host = "0.0.0.0"
port = 8080
api_key = "secret"
eip = "203.0.113.7:8080"
max_sandbox_timeout_seconds = 86400
timeout_keep_alive = 30
limit_concurrency = 0
timeout_graceful_shutdown = 5
backlog = 2048
thread_pool_size = 200
loop = "auto"
http = "auto"
[proxy]
resolve_internal = true
[log]
level = "info"
file_enabled = false
file_path = "~/logs/opensandbox/server.log"
access_file_path = "~/logs/opensandbox/access.log"
file_max_bytes = 104857600
file_backup_count = 5
[tenants]
provider = "http"
endpoint = "http://127.0.0.1:1"
max_stale_seconds = 300
timeout_seconds = 5
auth_header = "X-Auth"
auth_token = "t"
[renew_intent]
enabled = true
min_interval_seconds = 60
redis.enabled = false
redis.dsn = "redis://127.0.0.1"
redis.queue_key = "opensandbox:renew:intent"
redis.consumer_concurrency = 8
[otel]
enabled = false
endpoint = "http://127.0.0.1:4318"
service_name = "opensandbox-server"
export_interval_millis = 60000
[runtime]
type = "docker"
execd_image = "opensandbox/execd:v1"
execd_run_as_init = true
[docker]
network_mode = "bridge"
api_timeout = 180
host_ip = "10.0.0.1"
drop_capabilities = ["NET_RAW"]
apparmor_profile = "p"
no_new_privileges = true
seccomp_profile = "s"
port_range_min = 40000
port_range_max = 60000
publish_host = "0.0.0.0"
pids_limit = 4096
sandbox_env = { A = "b" }
sandbox_binds = ["/a:/b"]
[kubernetes]
kubeconfig_path = "~/.kube/config"
insecure_skip_tls_verify = false
namespace = "default"
workload_provider = "batchsandbox"
batchsandbox_template_file = "t.yaml"
sandbox_create_timeout_seconds = 60
sandbox_create_poll_interval_seconds = 1.0
pool_acquisition_timeout_seconds = 30
image_pull_policy = "IfNotPresent"
execd_init_resources = { limits = { cpu = "1" }, requests = { cpu = "1" } }
informer_resync_seconds = 300
informer_watch_timeout_seconds = 60
read_qps = 0
read_burst = 0
write_qps = 0
write_burst = 0
fastpath_endpoint = "x:1"
fastpath_timeout_seconds = 30
fastpath_wait_ready_seconds = 30
fastpath_resource_pool = "default-pool"
template_s3_publish_secret = "s"
[agent_sandbox]
template_file = "t"
shutdown_policy = "Retain"
ingress_enabled = true
[ingress]
mode = "gateway"
gateway.address = "*.example.com"
gateway.route.mode = "header"
secure_access.active_key = "a"
secure_access.keys = [{ key_id = "a", key = "c2l4dGVlbiBieXRlcyBvciBtb3Jl" }]
[egress]
image = "opensandbox/egress:v1"
mode = "dns+nft"
disable_ipv6 = true
otlp_endpoint = ""
readiness_timeout_seconds = 30
requests = { cpu = "1" }
limits = { cpu = "1" }
upstream_proxy = { url = "u", authorization = "a", ca_cert_path = "c", ca_secret_name = "s" }
[storage]
allowed_host_paths = ["/srv"]
volume_default_size = "1Gi"
ossfs_mount_root = "/mnt/ossfs"
[store]
type = "postgresql"
path = "~/.opensandbox/opensandbox.db"
postgresql.dsn = "postgres://"
postgresql.min_pool_size = 1
postgresql.max_pool_size = 10
postgresql.connect_timeout_seconds = 5
postgresql.pool_timeout_seconds = 5
postgresql.snapshot_recovery_interval_seconds = 15
[secure_runtime]
type = "gvisor"
docker_runtime = "runsc"
k8s_runtime_class = "gvisor"
"""


def load(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_settings(path, environ)


def test_without_a_file_the_embedded_runtime_listens_on_loopback() -> None:
    settings = load_settings(None, {})
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.runtime.type == "oci"
    assert settings.data_dir == Path("~/.opensandbox").expanduser()
    assert settings.store_path == settings.data_dir / "opensandbox.db"


def test_every_key_of_the_published_server_loads(tmp_path: Path) -> None:
    settings = load(tmp_path, PUBLISHED)
    assert settings.runtime_options["docker"]["network_mode"] == "bridge"
    assert settings.log.level == "INFO"
    assert settings.ingress.gateway.address == "example.com"
    assert settings.store_path == Path("~/.opensandbox/opensandbox.db").expanduser()


def test_what_means_nothing_here_is_named_and_nothing_else(tmp_path: Path) -> None:
    settings = load(tmp_path, PUBLISHED)
    assert {"egress.mode", "storage.allowed_host_paths", "runtime.execd_image"} <= set(
        settings.ignored
    )
    assert load(tmp_path, "[server]\nport = 1").ignored == ()


def test_k8s_is_another_name_of_kubernetes(tmp_path: Path) -> None:
    assert load(tmp_path, '[runtime]\ntype = "k8s"').runtime.type == "kubernetes"


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("[server]\nprot = 1", "server.prot", "unknown key; did you mean port?"),
        ("[sever]\nport = 1", "sever", "unknown key; did you mean server?"),
        ("[server]\nport = 70000", "server.port", "less than or equal to 65535"),
        ('[server]\nport = "many"', "server.port", "valid integer"),
        ("[server]\nmax_sandbox_timeout_seconds = 59", "max_sandbox_timeout_seconds", "60"),
        ('[log]\nlevel = "LOUD"', "log.level", "must be DEBUG"),
        ('[egress]\nmood = "dns"', "egress.mood", "unknown key; did you mean mode?"),
        ('[ingress]\nmode = "gateway"', "ingress", "gateway.address: needed"),
        (
            '[ingress]\nsecure_access.active_key = "a"',
            "ingress.secure_access",
            "no key has this id",
        ),
        (
            '[[ingress.secure_access.keys]]\nkey_id = "a"\nkey = "c2hvcnQ="',
            "keys.0.key",
            "16 bytes",
        ),
        ('[ingress.gateway]\naddress = "http://x"', "ingress.gateway.address", "no scheme"),
        ("is_insecure = true", "is_insecure", "unknown key"),
    ],
)
def test_a_bad_value_is_refused_with_file_key_and_reason(
    tmp_path: Path, text: str, key: str, reason: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(tmp_path, text)
    assert str(tmp_path / "config.toml") in str(refusal.value)
    assert key in str(refusal.value)
    assert reason in str(refusal.value)


def test_a_refusal_never_repeats_the_value(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(tmp_path, '[[ingress.secure_access.keys]]\nkey_id = "a"\nkey = "c2hvcnQ="')
    assert "c2hvcnQ=" not in str(refusal.value)


def test_text_that_is_not_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"config\.toml: Expected"):
        load(tmp_path, "[server")


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[server]\napi_key = "file"',
        OPENSANDBOX_SERVER_API_KEY="environment",
        OPENSANDBOX_STORE_POSTGRESQL_DSN="postgres://x",
        OPENSANDBOX_SECURE_ACCESS_KEYS="a=c2l4dGVlbiBieXRlcyBvciBtb3Jl,b=c2l4dGVlbiBieXRlcyBvciBtb3Jl",
        OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY="b",
        OPENSANDBOX_INSECURE_SERVER="YES",
    )
    assert settings.server.api_key == "environment"
    assert settings.store.postgresql.dsn == "postgres://x"
    assert [entry.key_id for entry in settings.ingress.secure_access.keys] == ["a", "b"]
    assert settings.ingress.secure_access.active_key == "b"
    assert settings.is_insecure


def test_tables_of_runtimes_are_left_to_them(tmp_path: Path) -> None:
    text = '[runtime]\ntype = "mine"\n[oci]\nlauncher = "crun"\n[mine]\nx = 1'
    options = load(tmp_path, text).runtime_options
    assert options == {"oci": {"launcher": "crun"}, "mine": {"x": 1}}


def test_a_named_file_must_exist_and_the_default_one_need_not(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="init-config"):
        find_config(tmp_path / "none.toml", {})
    with pytest.raises(SettingsError, match="no such file"):
        find_config(None, {"SANDBOX_CONFIG_PATH": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_loads(tmp_path: Path, example: str) -> None:
    path = tmp_path / "config.toml"
    write_config(path, example, force=False)
    wanted = "kubernetes" if example.startswith("k") else example.removesuffix("-zh")
    assert load_settings(path, {}).runtime.type == wanted
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("mine")
    with pytest.raises(StartupError, match="--force"):
        write_config(path, "oci", force=False)
    assert path.read_text() == "mine"
    write_config(path, "oci", force=True)
    assert "oci" in path.read_text()


def test_the_skeleton_changes_nothing_and_with_every_key_set_loads_too(tmp_path: Path) -> None:
    assert load(tmp_path, skeleton()) == load_settings(None, {})
    lines = [
        line.removeprefix("#") if " = " in line and line[1] != " " else line
        for line in skeleton().splitlines()
    ]
    set_all = "\n".join(line for line in lines if "(not set)" not in line)
    assert load(tmp_path, set_all) == load_settings(None, {})
    for key in ("port", "gateway.route.mode", "max_sandbox_timeout_seconds", "level"):
        assert f"#{key} = " in skeleton()
