# SPDX-License-Identifier: Apache-2.0
"""Carries requests to the lifecycle API and to execd; brings back answers, or our exceptions."""

import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter

from opensandbox._events import EventReader
from opensandbox._failures import MAX_ERROR_BODY, api_error, read_answer, translated
from opensandbox._redirects import home_extension, strip_for_strangers
from opensandbox._requests import Query
from opensandbox._tracing import trace_headers
from opensandbox.config import ConnectionConfig, Target

from .retry import NO_RETRY, RetryAsyncTransport
from .waiting import BackgroundTasks

T = TypeVar("T")

logger = logging.getLogger("opensandbox")


class Transport:
    """The connections of one sandbox or manager. Nothing is opened before the first request."""

    def __init__(self, config: ConnectionConfig) -> None:
        """Prepare for requests under ``config``."""
        self.config = config
        self.background = BackgroundTasks()
        """What runs in the background, until the connections are closed."""
        self._owns_transport = config.transport is None
        hooks = {**config.event_hooks}
        hooks["request"] = [*hooks.get("request", []), _strip_for_strangers]
        self._client = httpx.AsyncClient(
            transport=config.transport or _new_transport(config),
            timeout=config.request_timeout.total_seconds(),
            follow_redirects=config.follow_redirects,
            event_hooks=hooks,
        )

    def to(self, target: Target) -> "Remote":
        """Return the remote at one address."""
        return Remote(self._client, target, self.config)

    async def close(self) -> None:
        """Close the connections, unless the caller brought them."""
        await self.background.finish()
        if self._owns_transport:
            await self._client.aclose()


@asynccontextmanager
async def opening(config: ConnectionConfig | None) -> AsyncIterator[Transport]:
    """Make connections that outlive the block, unless it fails."""
    transport = Transport(config or ConnectionConfig())
    try:
        yield transport
    except BaseException:
        await transport.close()
        raise


class Remote:
    """One place requests go to: the lifecycle API, or a port of a sandbox."""

    def __init__(self, client: httpx.AsyncClient, target: Target, config: ConnectionConfig) -> None:
        """Send through ``client`` to ``target``."""
        self.target = target
        self.config = config
        self._client = client

    async def ask(self, shape: TypeAdapter[T], method: str, path: str, **options: Any) -> T:
        """Send a request and read its answer as ``shape``. Options as of ``open``."""
        return read_answer(shape, await self.send(method, path, **options))

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and return its answer, read to the end. Options as of ``open``."""
        response = await self.open(method, path, **options)
        async with reading(response):
            await response.aread()
        return response

    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        json: object = None,
        content: AsyncIterable[bytes] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_stream: bool = False,
        once_within: float | None = None,
    ) -> httpx.Response:
        """Send a request and return its answer unread; the caller closes it.

        An error answer is raised. ``is_stream``: the answer may be silent as long as it likes, and
        is asked for once. ``once_within``: no retry, and at most so many seconds.
        """
        request = self._client.build_request(
            method,
            self.target.base_url + path,
            params=tuple(query) if query else None,
            json=json,
            content=content,
            headers={**self.headers(), **(headers or {})},
            timeout=self._timeout(is_stream, once_within),
        )
        request.extensions |= home_extension(request.url)
        if is_stream or once_within is not None:
            request.extensions[NO_RETRY] = True
        with translated():
            response = await self._client.send(request, stream=True)
        if self.config.debug:
            logger.debug("%s %s: %d", method, request.url, response.status_code)
        if response.is_success:
            return response
        async with reading(response):
            body = await _excerpt(response)
        raise api_error(response.status_code, response.headers, body)

    def headers(self) -> dict[str, str]:
        """Return what every request carries, a new one each time."""
        traced = trace_headers() if self.config.enable_tracing else {}
        return {**traced, **self.target.headers}

    def _timeout(self, is_stream: bool, within: float | None) -> httpx.Timeout:
        seconds = self.config.request_timeout.total_seconds()
        if is_stream:
            return httpx.Timeout(seconds, read=None, pool=None)
        return httpx.Timeout(seconds if within is None else min(seconds, within))


@asynccontextmanager
async def reading(response: httpx.Response) -> AsyncIterator[None]:
    """Close an answer when the block ends; what goes wrong while reading becomes ours."""
    with translated():
        try:
            yield
        finally:
            await response.aclose()


async def chunks_of(
    response: httpx.Response, size: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield an answer piece by piece and close it; only what the network does is translated."""
    async with reading(response):
        async for chunk in response.aiter_bytes(size):
            yield chunk


async def json_lines(
    remote: Remote, path: str, *, query: Query | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a stream that goes on until somebody has enough."""
    response = await remote.open("GET", path, query=query, is_stream=True)
    reader = EventReader()
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            for event in reader.feed(chunk):
                yield event


def _new_transport(config: ConnectionConfig) -> httpx.AsyncBaseTransport:
    # Reading the certificates takes longer than many requests. Without them a TLS handshake fails,
    # so a context that trusts nobody is safe where none is expected.
    trust = httpx.create_ssl_context() if config.may_use_tls else _no_trust()
    inner = httpx.AsyncHTTPTransport(verify=trust)
    return RetryAsyncTransport(inner, config.retry_policy)


def _no_trust() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _strip_for_strangers(request: httpx.Request) -> None:
    strip_for_strangers(request)


async def _excerpt(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_ERROR_BODY:
            break
    return body[:MAX_ERROR_BODY]
