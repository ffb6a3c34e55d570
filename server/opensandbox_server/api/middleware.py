# SPDX-License-Identifier: Apache-2.0
"""What every request passes before its route: a turn, a key, a bound on its body."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opensandbox_server.api.faults import fault_response
from opensandbox_server.api.keys import ApiKeys
from opensandbox_server.api.pages import refuse_page
from opensandbox_server.errors import BodyTooLarge, MissingKey, RequestRefused, WrongKey
from opensandbox_server.sandboxes.principal import Principal

KEY_HEADER = "OPEN-SANDBOX-API-KEY"
LONGEST_BODY = 1024 * 1024
TOO_LONG = f"The body is longer than {LONGEST_BODY} bytes."
OPEN_PATHS = frozenset({"/health", "/ready", "/version", "/docs", "/redoc", "/openapi.json"})


class OneStartPerTurn:
    """Lets one request begin in each turn of the event loop.

    Requests that arrive together would otherwise all begin in one turn, and whatever else waits for
    its turn would wait for all of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap app."""
        self._app = app
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for a turn, then pass the request on."""
        async with self._turn:
            await asyncio.sleep(0)
        await self._app(scope, receive, send)


class Authentication:
    """Lets through who has a key, says who that is, and bounds what is sent."""

    def __init__(
        self, app: ASGIApp, keys: ApiKeys, names: frozenset[str], runtime_name: str
    ) -> None:
        """Wrap app. Names are those of the server, by which it may be called without keys."""
        self._app = app
        self._keys = keys
        self._names = names
        self._runtime_name = runtime_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        app = fault_response(refusal, self._runtime_name) if refusal else self._app
        await app(scope, _bounded(receive), send)

    def _refusal(self, scope: Scope) -> RequestRefused | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > LONGEST_BODY:
            return BodyTooLarge(TOO_LONG)
        if scope["path"].removeprefix("/v1") in OPEN_PATHS:
            return None
        key = headers.get(KEY_HEADER)
        if not key and not self._keys.is_open:
            return MissingKey(f"The request has no API key: send it in the header {KEY_HEADER}.")
        by = Principal() if self._keys.is_open else self._keys.principal_of(key or "")
        if by is None:
            return WrongKey("The API key is not valid.")
        scope.setdefault("state", {})["principal"] = by
        return refuse_page(headers, self._names) if self._keys.is_open else None


def _bounded(receive: Receive) -> Receive:
    """Count what comes in: a chunked body does not say its length before."""
    length = 0

    async def counted() -> Message:
        nonlocal length
        message = await receive()
        length += len(message.get("body", b""))
        if length > LONGEST_BODY:
            raise HTTPException(BodyTooLarge.status, TOO_LONG)
        return message

    return counted
