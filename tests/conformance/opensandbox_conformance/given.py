# SPDX-License-Identifier: Apache-2.0
"""The server that the command line names, as a plugin of pytest."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
import pytest


@dataclass(frozen=True, slots=True)
class Given:
    """A server that runs already: where it listens, a key, and an image for sandboxes."""

    url: str
    key: str
    image: str

    def pytest_sessionstart(self) -> None:
        """See that it answers, to say once what every test would say otherwise."""
        headers = {"OPEN-SANDBOX-API-KEY": self.key} if self.key else {}
        try:
            answer = httpx.get(f"{self.url}/v1/sandboxes", headers=headers, timeout=10)
        except httpx.TransportError as fault:
            pytest.exit(f"{self.url} does not answer: {fault}", returncode=4)
        if answer.status_code == 401:
            pytest.exit(f"{self.url} does not take this key: give --api-key", returncode=4)
        if not answer.is_success:
            pytest.exit(f"{self.url} answers {answer.status_code}: {answer.text}", returncode=4)

    def pytest_report_header(self) -> str:
        """Say what is tested."""
        return f"server: {self.url}, image: {self.image}"

    @pytest.fixture
    def server(self) -> tuple[str, str, str]:
        """Have the server: its URL, a key and an image."""
        return self.url, self.key, self.image
