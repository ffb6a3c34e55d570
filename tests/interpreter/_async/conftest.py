# SPDX-License-Identifier: Apache-2.0
"""Interpreters to test with."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from code_interpreter import CodeInterpreter
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from tests.code.cells import START_SECONDS
from tests.harness.server import API_KEY, Server


@pytest.fixture
async def interpreter(server: Server) -> AsyncIterator[CodeInterpreter]:
    """An interpreter in a sandbox of the real server, which ends with the test."""
    config = ConnectionConfig(domain=server.domain, api_key=API_KEY)
    async with Sandbox.temporary("host", connection_config=config) as sandbox:
        yield await CodeInterpreter.create(sandbox)


@pytest.fixture
async def everything(polyglot: str) -> AsyncIterator[CodeInterpreter]:
    """An interpreter that has every language, and the usual libraries of Python."""
    timeout = timedelta(seconds=START_SECONDS)
    config = ConnectionConfig(domain=polyglot, api_key="any", request_timeout=timeout)
    async with await Sandbox.create("any", connection_config=config) as sandbox:
        yield await CodeInterpreter.create(sandbox)
