# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the suite; `server` comes from who runs it: an URL, a key and an image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opensandbox_conformance.api import Api, Box


@pytest.fixture
def api(server: tuple[str, str, str]) -> Iterator[Api]:
    """Have a client; what the test made is deleted afterwards."""
    client = Api(*server)
    yield client
    client.close()


@pytest.fixture
def box(api: Api) -> Box:
    """Have a running sandbox."""
    return api.create()
