# SPDX-License-Identifier: Apache-2.0
"""Addresses of ports: every form an endpoint can have, and signed routes. Nothing here does I/O."""

from __future__ import annotations

from dataclasses import dataclass

from opensandbox.models import SandboxEndpoint
from opensandbox.models.endpoints import EXECD_PORT
from opensandbox_server.errors import InvalidParameter, InvalidPort
from opensandbox_server.ingress.signing import FIRST_EXPIRES, LAST_EXPIRES, Signer
from opensandbox_server.sandboxes.wanted import Wanted
from opensandbox_server.settings.sections import Ingress

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
        self, wanted: Wanted, port: int, origin: RequestOrigin, *, via_api: bool = False
    ) -> SandboxEndpoint:
        """Return the endpoint of a port; via_api is always under the API's own address."""
        check_port(port)
        headers = _tokens(wanted, port)
        if via_api or self.ingress.mode == "direct":
            return SandboxEndpoint(
                endpoint=self._under_api(wanted.id, port, origin), headers=headers
            )
        address, mode = self.ingress.gateway.address, self.ingress.gateway.route.mode
        if mode == "wildcard":
            return SandboxEndpoint(endpoint=f"{wanted.id}-{port}.{address}", headers=headers)
        if mode == "uri":
            return SandboxEndpoint(endpoint=f"{address}/{wanted.id}/{port}", headers=headers)
        headers[ROUTE_HEADER] = f"{wanted.id}-{port}"
        return SandboxEndpoint(endpoint=address, headers=headers)

    def signed(
        self, wanted: Wanted, port: int, origin: RequestOrigin, expires: int, now: float
    ) -> SandboxEndpoint:
        """Return an endpoint that needs no other proof until it expires."""
        check_port(port)
        if not max(now, FIRST_EXPIRES) < expires <= LAST_EXPIRES:
            raise InvalidParameter("expires: must be a time in the future, in Unix seconds.")
        until, signature = self.signer.sign(wanted.id, port, expires)
        gateway = self.ingress.gateway
        if self.ingress.mode == "direct" or gateway.route.mode == "uri":
            host = (self.eip or origin.host) if self.ingress.mode == "direct" else gateway.address
            return SandboxEndpoint(endpoint=f"{host}/{wanted.id}/{port}/{until}/{signature}")
        route = f"{wanted.id}-{port}-{until}"
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


def _tokens(wanted: Wanted, port: int) -> dict[str, str]:
    headers = {}
    if port == EXECD_PORT and wanted.execd_token:
        headers[EXECD_HEADER] = wanted.execd_token
    if wanted.secure_token:
        headers[SECURE_HEADER] = wanted.secure_token
    return headers
