# SPDX-License-Identifier: Apache-2.0
"""Addresses of ports: every form an endpoint can have, and signed routes. Nothing here does I/O."""

from __future__ import annotations

from dataclasses import dataclass

from opensandbox.models import SandboxEndpoint
from opensandbox.models.endpoints import EXECD_PORT
from opensandbox_server.errors import InvalidParameter, InvalidPort
from opensandbox_server.ingress.signing import FIRST_EXPIRES, LAST_EXPIRES, Signer
from opensandbox_server.settings.sections import Ingress
from opensandbox_server.store.stored import StoredSandbox

EXECD_HEADER = "X-EXECD-ACCESS-TOKEN"
SECURE_HEADER = "OpenSandbox-Secure-Access"
ROUTE_HEADER = "OpenSandbox-Ingress-To"


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """How a client came to the API; the same host leads it to sandboxes."""

    host: str
    prefix: str = ""
    """`/v1` when it used that."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Makes endpoints by what the operator chose."""

    ingress: Ingress
    signer: Signer
    eip: str = ""

    def of(
        self, stored: StoredSandbox, port: int, origin: RequestOrigin, *, via_api: bool = False
    ) -> SandboxEndpoint:
        """Return the endpoint of a port; via_api is always under the API's own address."""
        check_port(port)
        headers = _tokens(stored, port)
        if via_api or self.ingress.mode == "direct":
            return SandboxEndpoint(
                endpoint=self._under_api(stored.id, port, origin), headers=headers
            )
        address, mode = self.ingress.gateway.address, self.ingress.gateway.route.mode
        if mode == "wildcard":
            return SandboxEndpoint(endpoint=f"{stored.id}-{port}.{address}", headers=headers)
        if mode == "uri":
            return SandboxEndpoint(endpoint=f"{address}/{stored.id}/{port}", headers=headers)
        headers[ROUTE_HEADER] = f"{stored.id}-{port}"
        return SandboxEndpoint(endpoint=address, headers=headers)

    def signed(
        self, stored: StoredSandbox, port: int, origin: RequestOrigin, expires: int, now: float
    ) -> SandboxEndpoint:
        """Return an endpoint that needs no other proof until it expires."""
        check_port(port)
        if not max(now, FIRST_EXPIRES) < expires <= LAST_EXPIRES:
            raise InvalidParameter("expires: must be a time in the future, in Unix seconds.")
        until, signature = self.signer.sign(stored.id, port, expires)
        gateway = self.ingress.gateway
        if self.ingress.mode == "direct" or gateway.route.mode == "uri":
            host = (self.eip or origin.host) if self.ingress.mode == "direct" else gateway.address
            return SandboxEndpoint(endpoint=f"{host}/{stored.id}/{port}/{until}/{signature}")
        route = f"{stored.id}-{port}-{until}"
        if gateway.route.mode == "wildcard":
            # Both in one would be longer than a label of a host name may be.
            return SandboxEndpoint(endpoint=f"{signature}.{route}.{gateway.address}")
        headers = {ROUTE_HEADER: f"{route}-{signature}"}
        return SandboxEndpoint(endpoint=gateway.address, headers=headers)

    def _under_api(self, sandbox_id: str, port: int, origin: RequestOrigin) -> str:
        base = self.eip or f"{origin.host}{origin.prefix}"
        return f"{base}/sandboxes/{sandbox_id}/proxy/{port}"


def check_port(port: int) -> None:
    """Refuse what is no port. Raises InvalidPort."""
    if not 1 <= port <= 65535:
        raise InvalidPort(f"Port {port} is not between 1 and 65535.")


def _tokens(stored: StoredSandbox, port: int) -> dict[str, str]:
    headers = {}
    if port == EXECD_PORT and stored.execd_token:
        headers[EXECD_HEADER] = stored.execd_token
    if stored.secure_token:
        headers[SECURE_HEADER] = stored.secure_token
    return headers
