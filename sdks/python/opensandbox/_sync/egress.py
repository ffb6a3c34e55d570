# SPDX-License-Identifier: Apache-2.0
# Made from _async/egress.py by scripts/unasync.py; change it there.
"""What may go out of a sandbox, and the credentials its requests get on their way."""

from collections.abc import Callable, Sequence
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

    def __init__(self, find: Callable[[], Remote], path: str) -> None:
        """Speak to whom ``find`` returns; the policy is at ``path`` there."""
        self._find = find
        self._path = path

    def get_policy(self) -> NetworkPolicy:
        """Return the policy in force."""
        remote = self._find()
        status = remote.ask(_STATUS, "GET", self._path)
        if status.policy is None:
            error = SandboxError(SandboxError.UNEXPECTED_RESPONSE, "the answer has no policy")
            raise SandboxInternalException(error.message, error=error)
        return status.policy

    def patch_rules(self, rules: Sequence[NetworkRule]) -> None:
        """Put rules in front; one for a target that has a rule already replaces it."""
        if not rules:
            raise InvalidArgumentException("at least one rule is needed")
        remote = self._find()
        remote.send("PATCH", self._path, json=[rule.to_wire() for rule in rules])

    def delete_rules(self, targets: Sequence[str]) -> None:
        """Remove the rules of these targets; those without one are no error."""
        if isinstance(targets, str) or not targets:
            raise InvalidArgumentException("a list of at least one target is needed")
        remote = self._find()
        remote.send("DELETE", self._path, json=list(targets))


class CredentialVault:
    """Secrets of one sandbox. They go in and never come back out."""

    def __init__(self, find: Callable[[], Remote]) -> None:
        """Speak to the egress that ``find`` returns."""
        self._find = find

    def create(
        self,
        *,
        credentials: list[Credential | dict[str, object]],
        bindings: list[CredentialBinding | dict[str, object]],
    ) -> CredentialVaultState:
        """Make the vault of a sandbox that has none. Models or dicts."""
        fields = {"credentials": credentials, "bindings": bindings}
        with refused_arguments():
            body = CredentialVaultCreateRequest.model_validate(fields).to_wire()
        remote = self._find()
        return remote.ask(_STATE, "POST", _VAULT, json=body)

    def get(self) -> CredentialVaultState:
        """Return what the vault has."""
        remote = self._find()
        return remote.ask(_STATE, "GET", _VAULT)

    def patch(
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
        remote = self._find()
        return remote.ask(_STATE, "PATCH", _VAULT, json=body)

    def delete(self) -> None:
        """Forget every secret."""
        remote = self._find()
        remote.send("DELETE", _VAULT)

    def list_credentials(self) -> list[CredentialMetadata]:
        """Return the credentials by name, without their values."""
        remote = self._find()
        return (remote.ask(_CREDENTIALS, "GET", f"{_VAULT}/credentials")).credentials

    def get_credential(self, name: str) -> CredentialMetadata:
        """Return one credential, without its value."""
        remote = self._find()
        path = f"{_VAULT}/credentials/{segment(name, 'name')}"
        return remote.ask(_CREDENTIAL, "GET", path)

    def list_bindings(self) -> list[CredentialBindingMetadata]:
        """Return the bindings by name."""
        remote = self._find()
        return (remote.ask(_BINDINGS, "GET", f"{_VAULT}/bindings")).bindings

    def get_binding(self, name: str) -> CredentialBindingMetadata:
        """Return one binding."""
        remote = self._find()
        return remote.ask(_BINDING, "GET", f"{_VAULT}/bindings/{segment(name, 'name')}")
