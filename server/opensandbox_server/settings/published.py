# SPDX-License-Identifier: Apache-2.0
"""Keys of the published server's config file that mean nothing here.

Files written for it load: each of these is taken out, and named once in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WITHOUT_MEANING = {
    "server": ("thread_pool_size",),
    "proxy": ("resolve_internal",),
    "tenants": ("endpoint", "max_stale_seconds", "timeout_seconds", "auth_header", "auth_token"),
    "renew_intent": ("redis",),
    "runtime": ("execd_image", "execd_run_as_init"),
    "agent_sandbox": ("template_file", "shutdown_policy", "ingress_enabled"),
    "egress": (
        *("image", "mode", "disable_ipv6", "otlp_endpoint", "readiness_timeout_seconds"),
        *("requests", "limits", "upstream_proxy"),
    ),
    "storage": ("allowed_host_paths", "volume_default_size", "ossfs_mount_root"),
    "secure_runtime": ("docker_runtime", "k8s_runtime_class"),
}
"""By table. Tables of runtimes are not here: a runtime checks its own."""


def take_out(tables: dict[str, Any]) -> tuple[str, ...]:
    """Remove them from what was read, and return those that were there."""
    return tuple(_take_out(tables))


def _take_out(tables: dict[str, Any]) -> Iterator[str]:
    for name, keys in WITHOUT_MEANING.items():
        table = tables.get(name)
        if not isinstance(table, dict):
            continue
        for key in keys:
            if table.pop(key, None) is not None:
                yield f"{name}.{key}"
        if not table:
            del tables[name]
