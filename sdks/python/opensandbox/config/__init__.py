# SPDX-License-Identifier: Apache-2.0
"""Where the server is and how to speak to it."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, field_validator

from opensandbox._client_address import CLIENT_IP_HEADER, client_address
from opensandbox._retry import RetryPolicy
from opensandbox._version import __version__
from opensandbox.models.endpoints import SandboxEndpoint

__all__ = ["ConnectionConfig", "ConnectionConfigSync"]

API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"
DEFAULT_DOMAIN = "localhost:8080"
API_VERSION = "v1"


@dataclass(frozen=True)
class Target:
    """One place requests go to, and the headers all of them carry."""

    base_url: str
    headers: Mapping[str, str]


class _Connection(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    api_key: str | None = Field(default=None, repr=False)
    domain: str | None = None
    protocol: Literal["http", "https"] = "http"
    request_timeout: timedelta = timedelta(seconds=30)
    debug: bool = False
    user_agent: str = f"OpenSandbox-Python-SDK/{__version__}"
    headers: dict[str, str] = Field(default_factory=dict)
    follow_redirects: bool = False
    retry_policy: RetryPolicy = Field(default_factory=RetryPolicy)
    use_server_proxy: bool = False
    endpoint_cache_ttl: timedelta = timedelta(seconds=600)
    endpoint_cache_size: int = 1024
    endpoint_cache_disabled: bool = False
    disable_metrics: bool = False
    """Do not tell the server how long a create took; so does OPENSANDBOX_DISABLE_METRICS=1."""
    enable_tracing: bool = False
    """Send ``traceparent``: of the current OpenTelemetry span, else of a new trace."""

    @field_validator("protocol", mode="before")
    @classmethod
    def _ignore_case(cls, protocol: object) -> object:
        return protocol.lower() if isinstance(protocol, str) else protocol

    @field_validator("request_timeout")
    @classmethod
    def _require_positive(cls, timeout: timedelta) -> timedelta:
        if timeout <= timedelta(0):
            raise ValueError("request_timeout must be positive")
        return timeout

    def get_api_key(self) -> str:
        """Return the key given, else that of the environment, else nothing."""
        return self.api_key or os.environ.get("OPEN_SANDBOX_API_KEY", "")

    def get_domain(self) -> str:
        """Return the domain given, else that of the environment, else the local server's."""
        return self.domain or os.environ.get("OPEN_SANDBOX_DOMAIN") or DEFAULT_DOMAIN

    def get_base_url(self) -> str:
        """Return where the lifecycle API is. A scheme in the domain wins over the protocol."""
        domain = self.get_domain().rstrip("/")
        if not domain.startswith(("http://", "https://")):
            domain = f"{self.protocol}://{domain}"
        return f"{domain.removesuffix(f'/{API_VERSION}')}/{API_VERSION}"

    @property
    def lifecycle(self) -> Target:
        """The lifecycle API."""
        address = client_address()
        known = {CLIENT_IP_HEADER: address} if address else {}
        return Target(self.get_base_url(), {**known, **self._own_headers, **self._key_header})

    def sandbox(self, endpoint: SandboxEndpoint) -> Target:
        """Return a port of a sandbox. The key goes there only through the server."""
        key = self._key_header if self.use_server_proxy else {}
        base_url = f"{self.protocol}://{endpoint.endpoint.rstrip('/')}"
        return Target(base_url, {**self._own_headers, **key, **endpoint.headers})

    @property
    def reports_metrics(self) -> bool:
        """Whether the server is told how long a create took."""
        return not self.disable_metrics and os.environ.get("OPENSANDBOX_DISABLE_METRICS") != "1"

    @property
    def may_use_tls(self) -> bool:
        """Whether any request may go to an https address."""
        has_tls = self.protocol == "https" or self.get_domain().startswith("https://")
        return has_tls or self.follow_redirects

    @property
    def _own_headers(self) -> dict[str, str]:
        return {"User-Agent": self.user_agent, **self.headers}

    @property
    def _key_header(self) -> dict[str, str]:
        key = self.get_api_key()
        return {API_KEY_HEADER: key} if key else {}


class ConnectionConfig(_Connection):
    """A connection for Sandbox and SandboxManager. A transport given here is never closed."""

    event_hooks: dict[str, list[Callable[[Any], Awaitable[None]]]] = Field(default_factory=dict)
    transport: httpx.AsyncBaseTransport | None = None


class ConnectionConfigSync(_Connection):
    """A connection for SandboxSync and SandboxManagerSync. A transport given is never closed."""

    event_hooks: dict[str, list[Callable[[Any], None]]] = Field(default_factory=dict)
    transport: httpx.BaseTransport | None = None
