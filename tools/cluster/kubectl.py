# SPDX-License-Identifier: Apache-2.0
"""Calls kubectl, as a user of the cluster does."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.cluster.component import ClusterError

_PROXIES = {"http_proxy", "https_proxy", "all_proxy"}
CALL_SECONDS = 90.0
"""Bounds one call; the longest wait for a pod."""


def environment() -> dict[str, str]:
    """Return the environment without proxies: the cluster is on this host."""
    return {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}


@dataclass(frozen=True)
class Kubectl:
    """The program with a kubeconfig, and what it is always called with."""

    program: Path
    kubeconfig: Path
    always: tuple[str, ...] = ()

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command line."""
        return [
            str(self.program),
            f"--kubeconfig={self.kubeconfig}",
            *self.always,
            *arguments,
        ]

    def attempt(
        self, *arguments: str, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call it and return how it went."""
        try:
            return subprocess.run(
                self.command(*arguments),
                input=given,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"kubectl {' '.join(arguments)} did not end") from None

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """Call it and return what it printed."""
        done = self.attempt(*arguments, given=given)
        if done.returncode:
            reason = " ".join(done.stderr.split())
            raise ClusterError(f"kubectl {' '.join(arguments)}: {reason}")
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create objects or change them to what is given."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self("apply", "--filename=-", given=json.dumps(listed))

    def within(self, namespace: str) -> Kubectl:
        """Return the same for objects of a namespace."""
        return Kubectl(self.program, self.kubeconfig, (*self.always, f"--namespace={namespace}"))

    def wait(self, condition: str, *what: str, seconds: int = 60) -> None:
        """Wait until a condition is true."""
        self("wait", f"--for={condition}", f"--timeout={seconds}s", *what)
