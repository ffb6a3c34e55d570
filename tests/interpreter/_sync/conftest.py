# SPDX-License-Identifier: Apache-2.0
# Made from _async/conftest.py by scripts/unasync.py; change it there.
"""Interpreters to test with."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from tests.code.cells import START_SECONDS
from tests.harness.server import API_KEY, Server


@pytest.fixture
def interpreter(server: Server) -> Iterator[CodeInterpreterSync]:
    """An interpreter in a sandbox of the real server, which ends with the test."""
    config = ConnectionConfigSync(domain=server.domain, api_key=API_KEY)
    with SandboxSync.temporary("host", connection_config=config) as sandbox:
        yield CodeInterpreterSync.create(sandbox)


@pytest.fixture
def everything(polyglot: str) -> Iterator[CodeInterpreterSync]:
    """An interpreter that has every language, and the usual libraries of Python."""
    timeout = timedelta(seconds=START_SECONDS)
    config = ConnectionConfigSync(domain=polyglot, api_key="any", request_timeout=timeout)
    with SandboxSync.create("any", connection_config=config) as sandbox:
        yield CodeInterpreterSync.create(sandbox)
