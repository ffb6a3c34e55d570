# SPDX-License-Identifier: Apache-2.0
"""Every form of an endpoint, and signatures that ingress can check."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from opensandbox_server.errors import InvalidParameter, InvalidPort
from opensandbox_server.ingress.endpoints import Endpoints, RequestOrigin
from opensandbox_server.ingress.signing import Signer
from opensandbox_server.runtimes.base import SandboxSpec
from opensandbox_server.settings.sections import Ingress
from opensandbox_server.store.stored import StoredSandbox

ID = "0b1f8f7e-1c52-4f0a-9d1c-2f1f5b1a0c3d"
WANTED = StoredSandbox(SandboxSpec(ID, "i", ("x",)), datetime.now(UTC), execd_token="execd")  # noqa: S106
SECURE = replace(WANTED, secure_token="secure")  # noqa: S106
ORIGIN = RequestOrigin("me:8080", "/v1")
SIGNER = Signer("k", b"a key of some length")
NOW, LATER = 1_800_000_000.0, 1_800_000_060
TOKEN = {"X-EXECD-ACCESS-TOKEN": "execd"}
SECRET = {"OpenSandbox-Secure-Access": "secure"}


def gateway(mode: str) -> Endpoints:
    given: dict[str, Any] = {"address": "boxes.example.com", "route": {"mode": mode}}
    return Endpoints(Ingress.model_validate({"mode": "gateway", "gateway": given}), SIGNER)


DIRECT = Endpoints(Ingress(), SIGNER)
BEHIND_NAT = Endpoints(Ingress(), SIGNER, eip="public:80")


@pytest.mark.parametrize(
    ("endpoints", "stored", "port", "endpoint", "headers"),
    [
        (DIRECT, WANTED, 44772, f"me:8080/v1/sandboxes/{ID}/proxy/44772", TOKEN),
        (DIRECT, WANTED, 3000, f"me:8080/v1/sandboxes/{ID}/proxy/3000", {}),
        (DIRECT, WANTED, 18080, f"me:8080/v1/sandboxes/{ID}/proxy/18080", {}),
        (DIRECT, SECURE, 3000, f"me:8080/v1/sandboxes/{ID}/proxy/3000", SECRET),
        (DIRECT, SECURE, 44772, f"me:8080/v1/sandboxes/{ID}/proxy/44772", TOKEN | SECRET),
        (BEHIND_NAT, WANTED, 3000, f"public:80/sandboxes/{ID}/proxy/3000", {}),
        (gateway("wildcard"), WANTED, 3000, f"{ID}-3000.boxes.example.com", {}),
        (gateway("uri"), WANTED, 3000, f"boxes.example.com/{ID}/3000", {}),
        (
            gateway("header"),
            WANTED,
            3000,
            "boxes.example.com",
            {"OpenSandbox-Ingress-To": f"{ID}-3000"},
        ),
    ],
)
def test_the_form_follows_the_settings(
    endpoints: Endpoints, stored: StoredSandbox, port: int, endpoint: str, headers: dict[str, str]
) -> None:
    found = endpoints.of(stored, port, ORIGIN)
    assert (found.endpoint, found.headers) == (endpoint, headers)


def test_through_the_api_no_routing_header_is_needed() -> None:
    found = gateway("header").of(SECURE, 3000, ORIGIN, via_api=True)
    assert found.endpoint == f"me:8080/v1/sandboxes/{ID}/proxy/3000"
    assert found.headers == SECRET


def test_a_bare_request_gets_an_endpoint_without_prefix() -> None:
    assert DIRECT.of(WANTED, 80, RequestOrigin("me")).endpoint == f"me/sandboxes/{ID}/proxy/80"


def expected() -> tuple[str, str]:
    digits, number = "", LATER
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    until = digits
    text = f"v1\nfull\n{ID}\n3000\n{until}\n".encode()
    digest = hmac.new(SIGNER.key, text, hashlib.sha256).digest()
    return until, base64.b32encode(digest).decode().lower().rstrip("=") + "k"


@pytest.mark.parametrize(
    ("endpoints", "form"),
    [
        (DIRECT, "me:8080/{id}/3000/{until}/{signature}"),
        (BEHIND_NAT, "public:80/{id}/3000/{until}/{signature}"),
        (gateway("uri"), "boxes.example.com/{id}/3000/{until}/{signature}"),
        (gateway("wildcard"), "{signature}.{id}-3000-{until}.boxes.example.com"),
    ],
)
def test_a_signed_route_needs_no_headers(endpoints: Endpoints, form: str) -> None:
    until, signature = expected()
    found = endpoints.signed(SECURE, 3000, ORIGIN, LATER, NOW)
    assert found.endpoint == form.format(id=ID, until=until, signature=signature)
    assert found.headers == {}
    assert int(until, 36) == LATER
    assert all(len(label) <= 63 for label in found.endpoint.split("/")[0].split("."))


def test_a_signed_route_by_header_carries_all_of_it_there() -> None:
    until, signature = expected()
    found = gateway("header").signed(WANTED, 3000, ORIGIN, LATER, NOW)
    assert found.headers == {"OpenSandbox-Ingress-To": f"{ID}-3000-{until}-{signature}"}


@pytest.mark.parametrize("expires", [-1, 0, int(NOW), 36**13])
def test_a_signed_route_ends_in_the_future(expires: int) -> None:
    with pytest.raises(InvalidParameter, match="expires"):
        DIRECT.signed(WANTED, 3000, ORIGIN, expires, NOW)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(InvalidPort):
        DIRECT.of(WANTED, port, ORIGIN)
