# SPDX-License-Identifier: Apache-2.0
"""The public names are where the published package has them, and importing is light."""

import importlib
import subprocess
import sys

import pytest

import opensandbox

PUBLIC = {
    "opensandbox": [
        "AcquirePolicy",
        "AsyncPooledSandboxCreator",
        "AsyncSandboxPool",
        "InMemoryAsyncPoolStateStore",
        "InMemoryPoolStateStore",
        "PoolCreationSpec",
        "PoolDestroyOptions",
        "PoolDestroyResult",
        "PoolDestroyState",
        "PoolDestroyStrategy",
        "PooledSandboxCreateContext",
        "PooledSandboxCreateReason",
        "PooledSandboxCreator",
        "Sandbox",
        "SandboxClient",
        "SandboxManager",
        "SandboxManagerSync",
        "SandboxPool",
        "SandboxPoolAsync",
        "SandboxPoolManager",
        "SandboxPoolManagerAsync",
        "SandboxPoolManagerSync",
        "SandboxPoolSync",
        "SandboxSync",
        "__version__",
    ],
    "opensandbox.config": ["ConnectionConfig", "ConnectionConfigSync"],
    "opensandbox.sync": ["SandboxManagerSync", "SandboxSync"],
    "opensandbox.transport": ["JitterMode", "RetryCause", "RetryEvent", "RetryPolicy"],
    "opensandbox.exceptions": [
        "InvalidArgumentException",
        "SandboxApiException",
        "SandboxConnectionException",
        "SandboxError",
        "SandboxException",
        "SandboxInternalException",
        "SandboxRateLimitException",
        "SandboxReadyTimeoutException",
        "SandboxTimeoutException",
        "SandboxUnhealthyException",
    ],
    "opensandbox.models.execd": [
        "CommandLogs",
        "CommandStatus",
        "Execution",
        "ExecutionComplete",
        "ExecutionError",
        "ExecutionHandlers",
        "ExecutionInit",
        "ExecutionLogs",
        "ExecutionResult",
        "OutputMessage",
        "RunCommandOpts",
    ],
    "opensandbox.models.execd_sync": ["ExecutionHandlersSync"],
    "opensandbox.models.filesystem": [
        "ContentReplaceEntry",
        "ContentReplaceResult",
        "DirectoryListEntry",
        "EntryInfo",
        "MoveEntry",
        "SearchEntry",
        "SetPermissionEntry",
        "WriteEntry",
    ],
    "opensandbox.models.sandboxes": [
        "OSSFS",
        "PVC",
        "CredentialProxyConfig",
        "Host",
        "LifecycleHook",
        "NetworkPolicy",
        "NetworkRule",
        "PagedSandboxInfos",
        "PagedSnapshotInfos",
        "PaginationInfo",
        "PeriodicLifecycleHook",
        "PlatformSpec",
        "SandboxAllocation",
        "SandboxCreateResponse",
        "SandboxEndpoint",
        "SandboxFilter",
        "SandboxImageAuth",
        "SandboxImageSpec",
        "SandboxInfo",
        "SandboxLifecycle",
        "SandboxMetrics",
        "SandboxRenewResponse",
        "SandboxState",
        "SandboxStatus",
        "SnapshotFilter",
        "SnapshotInfo",
        "SnapshotStatus",
        "Volume",
    ],
    "opensandbox.models.diagnostics": ["DiagnosticContent"],
    "opensandbox.models.templates": ["CreateTemplateRequest", "TemplateFilter", "TemplateInfo"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_importable(module: str) -> None:
    found = importlib.import_module(module)
    for name in PUBLIC[module]:
        assert getattr(found, name).__class__ is not None


def test_the_package_exports_exactly_these() -> None:
    assert sorted(opensandbox.__all__) == sorted(PUBLIC["opensandbox"])
    assert dir(opensandbox) == sorted(opensandbox.__all__)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Sandpit"):
        _ = opensandbox.Sandpit


def test_both_halves_have_the_same_methods() -> None:
    for ours, sync in (
        (opensandbox.Sandbox, opensandbox.SandboxSync),
        (opensandbox.SandboxManager, opensandbox.SandboxManagerSync),
    ):
        public = {name for name in dir(ours) if not name.startswith("_")}
        assert public == {name for name in dir(sync) if not name.startswith("_")}


def test_importing_the_package_loads_neither_httpx_nor_pydantic() -> None:
    program = "import opensandbox, sys; print({'httpx', 'pydantic'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
