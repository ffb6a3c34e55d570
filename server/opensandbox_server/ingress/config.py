# SPDX-License-Identifier: Apache-2.0
"""How ingress is started, and what it is told first."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opensandbox_server.errors import StartupError
from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.host.programs import find_program
from opensandbox_server.ingress.signing import Signer
from opensandbox_server.ingress.user import Identity
from opensandbox_server.settings.settings import Settings

LISTEN_FD, CONTROL_FD, RUN_DIR_FD = 3, 4, 5
API_SOCKET = "api.sock"
"""Where the API answers ingress, in the directory of sockets."""


@dataclass(frozen=True, slots=True)
class IngressConfig:
    """How ingress is started and what it must know."""

    program: Path
    listener: socket.socket
    """The public port. It is ours, so clients wait in its queue while ingress is restarted."""
    run_dir: Path
    settings: Mapping[str, Any] = field(repr=False)
    drop: str = ""
    """uid:gid ingress becomes; empty leaves it the user of the server."""
    grace_seconds: float = 5.0
    max_connections: int = 0
    """Of all clients; 0 lets ingress decide."""
    max_connections_per_peer: int = 0


def ingress_config(
    settings: Settings,
    data: DataDir,
    public: socket.socket,
    key_sums: Sequence[str],
    signers: list[Signer],
    ingress_as: Identity | None,
) -> IngressConfig:
    """Say how ingress is started. Raises StartupError when there is no such program."""
    program = find_program("ingress", settings.server.bin_dir)
    if program is None:
        raise StartupError("cannot find the ingress program; build it with: make build")
    return IngressConfig(
        program=program,
        listener=public,
        run_dir=data.run,
        settings=_control_config(settings, key_sums, signers),
        drop=f"{ingress_as.uid}:{ingress_as.gid}" if ingress_as else "",
        grace_seconds=settings.server.timeout_graceful_shutdown,
        max_connections=settings.ingress.max_connections,
        max_connections_per_peer=settings.ingress.max_connections_per_peer,
    )


def _control_config(
    settings: Settings, key_sums: Sequence[str], signers: list[Signer]
) -> Mapping[str, Any]:
    gateway = settings.ingress.gateway
    mode = gateway.route.mode if settings.ingress.mode == "gateway" else ""
    return {
        "apiKeyHashes": list(key_sums),
        "signing": {signer.key_id: b64encode(signer.key).decode() for signer in signers},
        "acceptsShortSignatures": settings.ingress.secure_access.accepts_short_signatures,
        "domain": gateway.address if mode == "wildcard" else settings.server.domain,
        "multiTenant": False,
        "routesByURI": mode == "uri",
    }


def arguments(config: IngressConfig) -> list[str]:
    """Return the command line of ingress."""
    words = [str(config.program), "--listen", f"fd://{LISTEN_FD}", "--control-fd", str(CONTROL_FD)]
    words += ["--api", f"unix:///proc/self/fd/{RUN_DIR_FD}/{API_SOCKET}"]
    if config.max_connections:
        words += ["--max-connections", str(config.max_connections)]
    if config.max_connections_per_peer:
        words += ["--max-connections-per-peer", str(config.max_connections_per_peer)]
    return words + (["--drop", config.drop] if config.drop else [])
