# SPDX-License-Identifier: Apache-2.0
"""The program that gives the kernel its rules."""

from __future__ import annotations

import subprocess


class NetworkFault(Exception):
    """The network of sandboxes cannot be made; the message says why."""


def nft(text: str, *, is_allowed_to_fail: bool = False, with_handles: bool = False) -> str:
    """Run commands, all of them or none; returns what they list. Raises NetworkFault."""
    command = ["nft", "-a", "-f", "-"] if with_handles else ["nft", "-f", "-"]
    environment = {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"}
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, check=False
        )
    except FileNotFoundError as error:
        raise NetworkFault("nft is missing; apt-get install nftables") from error
    if done.returncode and not is_allowed_to_fail:
        raise NetworkFault(f"nft refused the rules: {done.stderr.strip()}")
    return "" if done.returncode else done.stdout
