# SPDX-License-Identifier: Apache-2.0
"""Runs osb as people do: a process of its own with an environment of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SandboxFilter
from tests.harness.server import API_KEY, Server

WAIT_SECONDS = 60.0  # bounds every run; none needs nearly as long

Done = subprocess.CompletedProcess[bytes]


@dataclass(frozen=True)
class Osb:
    """The program, and a home for it that nothing else uses."""

    home: Path
    domain: str = "127.0.0.1:9"
    api_key: str = API_KEY
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """How it is started."""
        return [str(Path(sys.executable).with_name("osb"))]

    @property
    def environment(self) -> dict[str, str]:
        """What it finds around it: nothing of ours but what a test says."""
        ours = ("OPEN_SANDBOX_", "OPENSANDBOX_", "NO_COLOR", "COLUMNS", "LINES")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        connection = {"OPEN_SANDBOX_DOMAIN": self.domain, "OPEN_SANDBOX_API_KEY": self.api_key}
        return {**kept, **connection, "HOME": str(self.home), "TERM": "xterm", **self.variables}

    def run(self, *words: str, stdin: bytes = b"", cwd: Path | None = None) -> Done:
        """Run it to its end with pipes around it."""
        return subprocess.run(
            [*self.command, *words],
            input=stdin,
            env=self.environment,
            cwd=cwd or self.home,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
        )

    def print_(self, *words: str, stdin: bytes = b"") -> str:
        """Run it, expect that it works, and return what it printed."""
        done = self.run(*words, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, b""), (words, done)
        return done.stdout.decode()

    @contextmanager
    def sandbox(self, **arguments: Any) -> Iterator[str]:
        """Make a sandbox for a block, with the client, and end it afterwards if it still lives."""
        made = SandboxSync.create("host", connection_config=self._config, **arguments)
        try:
            yield made.id
        finally:
            with suppress(SandboxApiException):
                made.kill()
            made.close()

    def sandboxes(self) -> list[str]:
        """Return the ids of those that live."""
        with SandboxManagerSync.create(self._config) as manager:
            page = manager.list_sandbox_infos(SandboxFilter())
        return [info.id for info in page.sandbox_infos]

    @property
    def _config(self) -> ConnectionConfigSync:
        return ConnectionConfigSync(domain=self.domain, api_key=self.api_key)


def osb_for(server: Server, home: Path, **variables: str) -> Osb:
    """Return the program, pointed at a server."""
    return Osb(home, server.domain, variables=variables)
