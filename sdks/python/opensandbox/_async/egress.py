# SPDX-License-Identifier: Apache-2.0
"""What may go out of a sandbox, and the credentials its requests get on their way."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from opensandbox._failures import refused_arguments
from opensandbox._requests import segment
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxError,
    SandboxInternalException,
)
from opensandbox.models.credentials import (
    Credential,
    CredentialBinding,
    CredentialBindingListResponse,
    CredentialBindingMetadata,
    CredentialBindingMutationSet,
    CredentialListResponse,
    CredentialMetadata,
    CredentialMutationSet,
    CredentialVaultCreateRequest,
    CredentialVaultPatchRequest,
    CredentialVaultState,
)
from opensandbox.models.networks import NetworkPolicy, NetworkPolicyStatus, NetworkRule

from .transport import Remote

_VAULT = "/credential-vault"

_STATUS = TypeAdapter(NetworkPolicyStatus)
_STATE = TypeAdapter(CredentialVaultState)
_CREDENTIALS = TypeAdapter(CredentialListResponse)
_CREDENTIAL = TypeAdapter(CredentialMetadata)
_BINDINGS = TypeAdapter(CredentialBindingListResponse)
_BINDING = TypeAdapter(CredentialBindingMetadata)


class Egress:
    """The policy of one sandbox."""

    def __init__(self, find: Callable[[], Awaitable[Remote]], path: str) -> None:
        """Speak to whom ``find`` returns; the policy is at ``path`` there."""
        self._find = find
        self._path = path

    async def get_policy(self) -> NetworkPolicy:
        """Return the policy in force."""
        remote = await self._find()
        status = await remote.ask(_STATUS, "GET", self._path)
        if status.policy is None:
            error = SandboxError(SandboxError.UNEXPECTED_RESPONSE, "the answer has no policy")
            raise SandboxInternalException(error.message, error=error)
        return status.policy

    async def patch_rules(self, rules: Sequence[NetworkRule]) -> None:
        """Put rules in front; one for a target that has a rule already replaces it."""
        if not rules:
            raise InvalidArgumentException("at least one rule is needed")
        remote = await self._find()
        await remote.send("PATCH", self._path, json=[rule.to_wire() for rule in rules])

    async def delete_rules(self, targets: Sequence[str]) -> None:
        """Remove the rules of these targets; those without one are no error."""
        if isinstance(targets, str) or not targets:
            raise InvalidArgumentException("a list of at least one target is needed")
        remote = await self._find()
        await remote.send("DELETE", self._path, json=list(targets))


class CredentialVault:
    """Secrets of one sandbox. They go in and never come back out."""

    def __init__(self, find: Callable[[], Awaitable[Remote]]) -> None:
        """Speak to the egress that ``find`` returns."""
        self._find = find

    async def create(
        self,
        *,
        credentials: list[Credential | dict[str, object]],
        bindings: list[CredentialBinding | dict[str, object]],
    ) -> CredentialVaultState:
        """Make the vault of a sandbox that has none. Models or dicts."""
        fields = {"credentials": credentials, "bindings": bindings}
        with refused_arguments():
            body = CredentialVaultCreateRequest.model_validate(fields).to_wire()
        remote = await self._find()
        return await remote.ask(_STATE, "POST", _VAULT, json=body)

    async def get(self) -> CredentialVaultState:
        """Return what the vault has."""
        remote = await self._find()
        return await remote.ask(_STATE, "GET", _VAULT)

    async def patch(
        self,
        *,
        expected_revision: int | None = None,
        credentials: CredentialMutationSet | dict[str, object] | None = None,
        bindings: CredentialBindingMutationSet | dict[str, object] | None = None,
    ) -> CredentialVaultState:
        """Change the vault, all or nothing; refused when it is not at ``expected_revision``."""
        fields: dict[str, Any] = {
            "expected_revision": expected_revision,
            "credentials": credentials,
            "bindings": bindings,
        }
        with refused_arguments():
            body = CredentialVaultPatchRequest.model_validate(fields).to_wire()
        remote = await self._find()
        return await remote.ask(_STATE, "PATCH", _VAULT, json=body)

    async def delete(self) -> None:
        """Forget every secret."""
        remote = await self._find()
        await remote.send("DELETE", _VAULT)

    async def list_credentials(self) -> list[CredentialMetadata]:
        """Return the credentials by name, without their values."""
        remote = await self._find()
        return (await remote.ask(_CREDENTIALS, "GET", f"{_VAULT}/credentials")).credentials

    async def get_credential(self, name: str) -> CredentialMetadata:
        """Return one credential, without its value."""
        remote = await self._find()
        path = f"{_VAULT}/credentials/{segment(name, 'name')}"
        return await remote.ask(_CREDENTIAL, "GET", path)

    async def list_bindings(self) -> list[CredentialBindingMetadata]:
        """Return the bindings by name."""
        remote = await self._find()
        return (await remote.ask(_BINDINGS, "GET", f"{_VAULT}/bindings")).bindings

    async def get_binding(self, name: str) -> CredentialBindingMetadata:
        """Return one binding."""
        remote = await self._find()
        return await remote.ask(_BINDING, "GET", f"{_VAULT}/bindings/{segment(name, 'name')}")
