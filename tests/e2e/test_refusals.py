# SPDX-License-Identifier: Apache-2.0
"""Calls whose server side is not built yet: a typed exception with the code and the request."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models import (
    CreateTemplateRequest,
    NetworkRule,
    SnapshotFilter,
    TemplateFilter,
)
from tests.harness.server import Server


@pytest.fixture(scope="module")
def manager(server: Server) -> Iterator[SandboxManagerSync]:
    """A manager of the server."""
    with SandboxManagerSync.create(server.sync_config) as manager:
        yield manager


@pytest.fixture(scope="module")
def sandbox(server: Server) -> Iterator[SandboxSync]:
    """A sandbox to ask for what it cannot."""
    sandbox = SandboxSync.create("host", connection_config=server.sync_config)
    yield sandbox
    sandbox.destroy()


def refusal(call: Callable[[], object]) -> SandboxApiException:
    with pytest.raises(SandboxApiException) as caught:
        call()
    assert caught.value.request_id
    return caught.value


def test_snapshots(manager: SandboxManagerSync, sandbox: SandboxSync) -> None:
    for call in (
        lambda: sandbox.create_snapshot("x"),
        lambda: manager.get_snapshot("x"),
        lambda: manager.list_snapshots(SnapshotFilter()),
        lambda: manager.delete_snapshot("x"),
    ):
        error = refusal(call)
        assert (error.status_code, error.error.code) == (501, "SNAPSHOT::NOT_IMPLEMENTED")


def test_templates(server: Server, manager: SandboxManagerSync) -> None:
    for call in (
        lambda: manager.create_template(CreateTemplateRequest(image="a", publish="b")),
        lambda: manager.get_template("x"),
        lambda: manager.list_templates(TemplateFilter()),
        lambda: manager.delete_template("x"),
    ):
        error = refusal(call)
        assert (error.status_code, error.error.code) == (501, "FSB::API_NOT_SUPPORTED")
    error = refusal(
        lambda: SandboxSync.create_from_template(
            "x", timeout=timedelta(minutes=5), connection_config=server.sync_config
        )
    )
    assert error.status_code in (400, 501)


def test_egress_and_the_credential_vault(sandbox: SandboxSync) -> None:
    for call in (
        sandbox.get_egress_policy,
        lambda: sandbox.patch_egress_rules([NetworkRule(action="allow", target="example.com")]),
        sandbox.credential_vault.get,
        lambda: sandbox.credential_vault.create(credentials=[], bindings=[]),
    ):
        assert refusal(call).status_code == 503


def test_isolated_sessions(sandbox: SandboxSync) -> None:
    error = refusal(lambda: sandbox.isolation.run_once("true", workspace="/"))
    assert error.status_code == 503
