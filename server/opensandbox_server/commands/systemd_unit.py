# SPDX-License-Identifier: Apache-2.0
"""The server as a service of systemd: the unit that runs this installation."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.host.programs import BIN_VARIABLE
from opensandbox_server.runtimes.oci.client import END_SECONDS
from opensandbox_server.settings.settings import Settings

_UNIT = """\
# Made by: opensandbox-server systemd-unit
[Unit]
Description=OpenSandbox server
Wants=network-online.target
After=network-online.target
RequiresMountsFor={data_dir}
# A full disk or a port that is taken may last: try again for as long as that takes.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
{environment}\
Restart=on-failure
RestartSec=2

# Sandboxes outlive the server, and its own programs end when it does: signal nobody else.
KillMode=process
# Open requests, then ingress, then the launcher get time to end.
TimeoutStopSec={stop_seconds}
# What is below its cgroup is its own.
Delegate=yes

# A key that the server makes is said on its standard output: it is in {key_file},
# and not for everybody who may read the journal. The log is on standard error.
StandardOutput=null
StandardError=journal

# Processes of sandboxes are ended before the server is, and have limits of their own.
OOMScoreAdjust=-500
TasksMax=infinity
# Ingress takes as many clients as half of these.
LimitNOFILE=131072

# It is root to make sandboxes, which needs none of these.
CapabilityBoundingSet=~CAP_SYS_BOOT CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_TIME CAP_WAKE_ALARM
# Not here, because sandboxes would inherit it or could not be made:
# - ProtectSystem=, ProtectHome=, PrivateTmp=, PrivateDevices=, ProtectProc=, ReadOnlyPaths= and all
#   that give the service mounts of its own: sandboxes are made of what it can mount, the image host
#   of the files of this machine.
# - ProtectKernelTunables=, ProtectControlGroups=, PrivateNetwork=, RestrictAddressFamilies=,
#   IPAddressDeny=: it sets up interfaces, nftables, forwarding and cgroups of the machine.
# - RestrictNamespaces=, NoNewPrivileges=, SystemCallFilter=, RestrictSUIDSGID=, LockPersonality=,
#   MemoryDenyWriteExecute=: sandboxes are namespaces, have a filter of their own, and run any
#   program, those that make code while they run included.
# - RestrictRealtime=: the event loop runs before others. UMask=: files of images have modes.

[Install]
WantedBy=multi-user.target
"""


def unit(settings: Settings, flags: Sequence[str]) -> str:
    """Return a unit that serves with these flags, wherever it is started. Raises StartupError."""
    # -P: no modules of the directory it is started in.
    words = [sys.executable, "-P", "-m", "opensandbox_server", "serve", *flags]
    program, *arguments = (_quoted(word) for word in words)
    data_dir = settings.data_dir.resolve()
    told = os.environ.get(BIN_VARIABLE)
    programs = _quoted(f"{BIN_VARIABLE}={Path(told).resolve()}") if told else ""
    return _UNIT.format(
        data_dir=_quoted(str(data_dir)),
        key_file=data_dir / "api_key",
        command=" ".join([program, *(word.replace("$", "$$") for word in arguments)]),
        environment=f"Environment={programs}\n" if programs else "",
        stop_seconds=2 * settings.server.timeout_graceful_shutdown + round(END_SECONDS) + 10,
    )


def _quoted(word: str) -> str:
    """Write a word so that systemd reads just that. Raises StartupError."""
    if not word.isprintable():
        raise StartupError(f"{word!r} cannot be written into a unit; choose a plain path")
    word = word.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
