# SPDX-License-Identifier: Apache-2.0
"""What may go out of a sandbox."""

from typing import Literal

from opensandbox.models.wire import NonBlank, WireModel

Action = Literal["allow", "deny"]


class NetworkRule(WireModel):
    """Allow or deny one target: a name, a wildcard name, an address or a range."""

    action: Action
    target: NonBlank


class NetworkPolicy(WireModel):
    """Rules for outbound traffic, and what happens to everything else."""

    default_action: Action | None = "deny"
    egress: list[NetworkRule] | None = None


class NetworkPolicyStatus(WireModel):
    """The policy in force and how it is enforced."""

    status: str | None = None
    mode: str | None = None
    enforcement_mode: str | None = None
    reason: str | None = None
    policy: NetworkPolicy | None = None


class CredentialProxyConfig(WireModel):
    """Whether requests of the sandbox pass through the credential vault."""

    enabled: bool = False
