# SPDX-License-Identifier: Apache-2.0
"""A firewall that was written with the older iptables, whose tables nft does not see."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher.program import SEARCH_PATH

CHAINS = ("DOCKER-USER", "FORWARD")
_TABLES = Path("/proc/thread-self/net/ip_tables_names")
"""Of the network namespace the calling thread is in."""


class LegacyFirewallFault(Exception):
    """It did not take our rules; the message says why."""


def admit(bridge: str) -> None:
    """Let our packets through chains that drop by default, as Docker makes them."""
    program = _find_program()
    if program is None:
        return
    for chain in CHAINS:
        listed = _ask(program, "-S", chain).stdout
        is_wanted = "-P FORWARD DROP" in listed or (listed and chain == "DOCKER-USER")
        if is_wanted and f"--comment {bridge} -j" not in listed:
            for rule in _rules(bridge):
                done = _ask(program, "-I", chain, *rule)
                if done.returncode:
                    raise LegacyFirewallFault(f"{program}: {done.stderr.strip()}")


def leave(bridge: str) -> None:
    """Take our rules away; repeats safely."""
    program = _find_program()
    if program is None:
        return
    for chain in CHAINS:
        for rule in _rules(bridge):
            _ask(program, "-D", chain, *rule)  # refused when there is none


def _rules(bridge: str) -> tuple[list[str], ...]:
    ours = ["-m", "comment", "--comment", bridge, "-j", "ACCEPT"]
    answers = ["-o", bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"]
    return ["-i", bridge, *ours], [*answers, *ours]


def _find_program() -> str | None:
    """Find what such a firewall is changed with; None when there is no such firewall."""
    if not _TABLES.exists() or "filter" not in _TABLES.read_text().split():
        return None
    return shutil.which("iptables-legacy", path=SEARCH_PATH) or shutil.which(
        "iptables", path=SEARCH_PATH
    )


def _ask(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [program, "--wait", "5", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
