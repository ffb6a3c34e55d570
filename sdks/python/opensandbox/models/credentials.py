# SPDX-License-Identifier: Apache-2.0
"""The credential vault: secrets that requests of a sandbox get on their way, and never see."""

from typing import Annotated, Literal

from pydantic import Field

from opensandbox.models.wire import NonBlank, WireModel

AuthType = Literal["bearer", "basic", "apiKey", "customHeaders", "passthrough"]
Scheme = Literal["http", "https"]
Part = Literal["path", "query", "header", "body"]


class InlineCredentialSource(WireModel):
    """A secret, in the request itself."""

    value: str = Field(min_length=1, repr=False)
    type: Literal["inline"] = "inline"


class Credential(WireModel):
    """A secret and its name."""

    name: NonBlank
    source: InlineCredentialSource


class CredentialMatch(WireModel):
    """Which requests a binding is for. What is left out is the server's default."""

    schemes: list[Scheme] | None = None
    ports: list[int] | None = None
    """Of an older contract: only 80 and 443."""
    hosts: Annotated[list[str], Field(min_length=1)]
    methods: list[str] | None = None
    paths: list[str] | None = None


class CustomHeaderEntry(WireModel):
    """One header and the credential it gets."""

    name: str
    credential: str


class CredentialSubstitution(WireModel):
    """A text that becomes the secret in the named parts of a request."""

    credential: str
    placeholder: str
    in_: list[Part] = Field(alias="in")


class CredentialAuth(WireModel):
    """How a request gets its credential."""

    type: AuthType
    credential: str | None = None
    name: str | None = None
    headers: list[CustomHeaderEntry] | None = None
    substitutions: list[CredentialSubstitution] | None = None


class CredentialBinding(WireModel):
    """Which requests get which credential, and how."""

    name: NonBlank
    match: CredentialMatch
    auth: CredentialAuth


class CredentialVaultCreateRequest(WireModel):
    """Request for a vault."""

    credentials: list[Credential]
    bindings: list[CredentialBinding]


class CredentialMutationSet(WireModel):
    """Credentials to add, replace and delete."""

    add: list[Credential] | None = None
    replace: list[Credential] | None = None
    delete: list[str] | None = None


class CredentialBindingMutationSet(WireModel):
    """Bindings to add, replace and delete."""

    add: list[CredentialBinding] | None = None
    replace: list[CredentialBinding] | None = None
    delete: list[str] | None = None


class CredentialVaultPatchRequest(WireModel):
    """Request for a change of a vault, done as a whole or not at all."""

    expected_revision: int | None = None
    credentials: CredentialMutationSet | None = None
    bindings: CredentialBindingMutationSet | None = None


class CredentialMetadata(WireModel):
    """What is shown of a credential; never its value."""

    name: str
    source_type: str
    revision: int


class CredentialAuthMetadata(WireModel):
    """What is shown of how a request gets its credential."""

    type: str
    name: str | None = None


class CredentialBindingMetadata(WireModel):
    """What is shown of a binding."""

    name: str
    revision: int
    match: CredentialMatch | None = None
    auth: CredentialAuthMetadata | None = None


class CredentialVaultState(WireModel):
    """What a vault has, without the secrets."""

    revision: int
    credentials: list[CredentialMetadata]
    bindings: list[CredentialBindingMetadata]


class CredentialListResponse(WireModel):
    """The credentials of a vault."""

    revision: int
    credentials: list[CredentialMetadata]


class CredentialBindingListResponse(WireModel):
    """The bindings of a vault."""

    revision: int
    bindings: list[CredentialBindingMetadata]
