# SPDX-License-Identifier: Apache-2.0
"""Web pages and a server that needs no key.

A browser sends requests to this machine for whatever page is open in it, one that a sandbox serves
too, and even under a name of the page's own that it lets point here (DNS rebinding). A key stops
that, for no page has it. Without keys the Host must be one of ours and an Origin must be that Host.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from opensandbox_server.errors import ForeignOrigin, RequestRefused, UnknownHost
from opensandbox_server.settings.settings import Settings


def own_names(settings: Settings) -> frozenset[str]:
    """Return the names this server is reached by, besides its addresses."""
    server, gateway = settings.server, settings.ingress.gateway
    places = ("localhost", server.host, server.eip, server.domain, gateway.address)
    return frozenset(_name(place) for place in places if place)


def refuse_page(headers: Headers, names: frozenset[str]) -> RequestRefused | None:
    """Say why a request may be that of a page, or nothing."""
    host = headers.get("host", "")
    if not (_is_address(_name(host)) or _name(host) in names):
        return UnknownHost(
            "Without an API key the server answers only to its own names: "
            "set server.domain or server.eip to this one, or use a key."
        )
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return ForeignOrigin("Without an API key no page from elsewhere may use the server.")
    return None


def _name(place: str) -> str:
    """Return the host of host[:port]; nothing when there is none."""
    try:
        return (urlsplit(f"//{place}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """Tell an address, which no page can let point here, from a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
