# SPDX-License-Identifier: Apache-2.0
"""Our Python packages have every public name, parameter and field of the published ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.published.environment import published_python
from tests.published.parity import differences

SURFACE = Path(__file__).with_name("surface.py")

MODULES = (
    "code_interpreter",
    "code_interpreter.models",
    "code_interpreter.models.code",
    "code_interpreter.models.code_sync",
    "code_interpreter.sync",
    "opensandbox",
    "opensandbox.config",
    "opensandbox.exceptions",
    "opensandbox.models.diagnostics",
    "opensandbox.models.execd",
    "opensandbox.models.execd_sync",
    "opensandbox.models.filesystem",
    "opensandbox.models.isolated",
    "opensandbox.models.sandboxes",
    "opensandbox.models.templates",
    "opensandbox.pool",
    "opensandbox.sync",
    "opensandbox.transport",
)

# What the properties of a sandbox return: where the published client has it, and where we do.
PARTS = {
    "services.command:Commands": "commands:Commands",
    "services.filesystem:Filesystem": "files:Files",
    "services.metrics:Metrics": "metrics:Metrics",
    "services.egress:CredentialVault": "egress:CredentialVault",
    "services.diagnostics:Diagnostics": "diagnostics:Diagnostics",
    "services.isolated:IsolationService": "isolation:Isolation",
    "services.isolated:IsolationSession": "isolation:IsolationSession",
}

INTERPRETER_PARTS = {"services.code:Codes": "codes:Codes"}

# Where ours differs on purpose. Every line must be of use.
DELIBERATE = {
    "Sandbox.__init__": "made by create, connect and resume only; the parts it is made of are ours",
    "SandboxSync.__init__": "the same",
    "SandboxManager.__init__": "made by create only",
    "SandboxManagerSync.__init__": "the same",
    "CodeInterpreter.__init__": "made by create only, of nothing but a sandbox",
    "CodeInterpreterSync.__init__": "the same",
    "ConnectionConfig.user_agent": "says our version",
    "ConnectionConfigSync.user_agent": "the same",
    "ConnectionConfig.new_owned_transport": "each sandbox makes its own connections when it needs "
    "them, and closes them; nobody has to manage those of a configuration",
    "ConnectionConfigSync.new_owned_transport": "the same",
    "ConnectionConfig.with_transport_if_missing": "the same",
    "ConnectionConfigSync.with_transport_if_missing": "the same",
    "ConnectionConfig.close_transport_if_owned": "the same",
    "ConnectionConfigSync.close_transport_if_owned": "the same",
    "ConnectionConfig.owns_transport": "the same",
    "ConnectionConfigSync.owns_transport": "the same",
    "SandboxCreateResponse": "an answer, which has all that the contract says a server sends",
    "SandboxEndpoint.build_request_headers": "an endpoint has its headers; the client adds its own",
    "SandboxInternalException.__init__": "can have a request id, as every exception here",
    "SandboxConnectionException.__init__": "the same",
    "SandboxTimeoutException.__init__": "the same",
    "SandboxRateLimitException.__init__(is_retryable)": "asking later is what it is about",
    "PoolAcquireFailedException.__init__(message)": "its message is written where it is raised",
    "PoolDestroyIncompleteException.__init__(message)": "the same",
    "PoolDestroyedException.__init__(message)": "the same",
    "PoolEmptyException.__init__(message)": "the same",
    "PoolNotRunningException.__init__(message)": "the same",
    "RetryAsyncTransport.__init__": "always closes what it wraps, and spreads waits by itself",
    "RetrySyncTransport.__init__": "the same",
    "RetryPolicy.retryable_statuses_for": "retries_status answers for one",
    "RetryPolicy.wraps_transport": "every connection is wrapped",
    "unwrap_retry_transport": "the wrapped transport is its attribute inner",
    "RetryAsyncTransport.inner": "an attribute of the object, not of the class",
    "RetrySyncTransport.inner": "the same",
}


def surface(python: str, names: list[str]) -> Any:
    done = subprocess.run(
        [python, str(SURFACE), *names], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parts() -> dict[str, str]:
    """Return PARTS with their whole names, for both halves."""
    return {
        f"{package}.{folder}{there}{suffix}": f"opensandbox.{half}.{here}"
        for folder, suffix, half in (("", "", "_async"), ("sync.", "Sync", "_sync"))
        for package, parts in (("opensandbox", PARTS), ("code_interpreter", INTERPRETER_PARTS))
        for there, here in parts.items()
    }


@pytest.fixture(scope="module")
def faults() -> list[str]:
    """Every difference, deliberate or not, without the module it is in."""
    pairs = parts()
    theirs = surface(str(published_python()), [*MODULES, *pairs])
    ours = surface(sys.executable, [*MODULES, *pairs.values()])
    for there, here in pairs.items():
        (name,) = theirs[there]
        theirs[there][name]["bases"] = []
        theirs[there][name]["members"].pop("__init__", None)
        ours[there] = {name: next(iter(ours[here].values()))}
    return [fault.removeprefix(f"{module}:") for module, fault in _told(theirs, ours)]


def _told(theirs: Any, ours: Any) -> list[tuple[str, str]]:
    return [
        (module, fault)
        for module in theirs
        for fault in differences({module: theirs[module]}, {module: ours[module]})
    ]


def test_nothing_is_missing_or_otherwise(faults: list[str]) -> None:
    unexplained = [fault for fault in faults if not fault.startswith(tuple(DELIBERATE))]
    assert not unexplained, "\n".join(unexplained)


def test_every_deliberate_difference_is_one(faults: list[str]) -> None:
    assert [name for name in DELIBERATE if not any(f.startswith(name) for f in faults)] == []


def test_a_difference_is_found() -> None:
    before = {"m": {"C": {"kind": "class", "members": {"f": _function("a", "b")}}}}
    after = {"m": {"C": {"kind": "class", "members": {"f": _function("b")}}}}
    assert differences(before, before) == []
    assert differences(before, after) == [
        "m:C.f(a): is missing",
        "m:C.f: takes its arguments in another order",
    ]
    assert differences(before, {"m": {}}) == ["m:C: is missing"]


def _function(*names: str) -> dict[str, Any]:
    parameters = [
        {"name": name, "kind": "POSITIONAL_OR_KEYWORD", "default": "required"} for name in names
    ]
    return {"kind": "function", "is_async": False, "parameters": parameters}
