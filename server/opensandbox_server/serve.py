# SPDX-License-Identifier: Apache-2.0
"""Serving: the public port, ingress, the API behind it, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI

from opensandbox_server.api.keys import open_api_keys
from opensandbox_server.app import build_app
from opensandbox_server.errors import PartEnded, StartupError
from opensandbox_server.host.data_dir import DataDir, open_data_dir
from opensandbox_server.host.full_disk import explain, is_full
from opensandbox_server.host.priority import run_before_others
from opensandbox_server.host.programs import find_program
from opensandbox_server.host.sockets import listen_tcp, listen_unix
from opensandbox_server.ingress.config import API_SOCKET, ingress_config
from opensandbox_server.ingress.endpoints import Endpoints
from opensandbox_server.ingress.ingress import Ingress, open_ingress
from opensandbox_server.ingress.signing import signing_keys
from opensandbox_server.ingress.user import ingress_identity
from opensandbox_server.runtimes import make_runtime, open_runtime
from opensandbox_server.runtimes.base import RuntimeHome, RuntimeUnavailable
from opensandbox_server.sandboxes.sandboxes import Sandboxes, open_sandboxes
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store import open_store
from opensandbox_server.telemetry.stalls import watch_stalls
from opensandbox_server.telemetry.telemetry import open_telemetry

log = logging.getLogger(__name__)


def serve(settings: Settings, *, stops_sandboxes: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError with nothing half-made."""
    is_plain = settings.server.loop == "asyncio"
    loop_factory = asyncio.new_event_loop if is_plain else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(settings, stops_sandboxes=stops_sandboxes))


async def _serve(settings: Settings, *, stops_sandboxes: bool) -> None:
    ended = _end_signals()
    with _startup_faults():
        async with open_server(settings, stops_sandboxes=stops_sandboxes) as parts:
            gc.freeze()  # what exists by now stays; looking through it stalls the loop
            run_before_others()
            async with watch_stalls():
                await _until(ended, *parts)
            log.info("stopping; sandboxes %s", "end" if stops_sandboxes else "run on")


@contextlib.asynccontextmanager
async def open_server(
    settings: Settings, *, stops_sandboxes: bool
) -> AsyncIterator[Sequence[asyncio.Task[Any]]]:
    """Open everything a server is made of, from top to bottom; close it in reverse.

    Each part needs only those before it. Ingress comes last: clients wait until all is there, and
    at the end nobody asks any more when the API goes. Yields what must not end before the server.
    Raises StartupError.
    """
    _refuse_what_is_not_built(settings)
    server = settings.server
    async with contextlib.AsyncExitStack() as opened:
        telemetry = await opened.enter_async_context(open_telemetry(settings))
        ingress_user = opened.enter_context(ingress_identity(settings))
        gid = ingress_user.gid if ingress_user else None
        data = opened.enter_context(open_data_dir(settings.data_dir, gid))
        port = opened.enter_context(listen_tcp(server.host, server.port, server.backlog))
        runtime = make_runtime(settings.runtime.type, runtime_home(settings, gid))
        keys, announce = opened.enter_context(open_api_keys(settings, data))
        signers = signing_keys(settings, data)
        ingress = Ingress(ingress_config(settings, data, port, keys.sums, signers, ingress_user))
        store = await opened.enter_async_context(open_store(settings, data, runtime))
        await opened.enter_async_context(open_runtime(runtime))
        sandboxes, care = await opened.enter_async_context(
            open_sandboxes(settings, runtime, store, ingress)
        )
        if stops_sandboxes:
            opened.push_async_exit(_end_all(sandboxes))
        endpoints = Endpoints(settings.ingress, signers[0], server.eip)
        app = build_app(settings, sandboxes, endpoints, keys, telemetry)
        api = await opened.enter_async_context(_open_api(app, settings, data.run, gid))
        front = await opened.enter_async_context(open_ingress(ingress, sandboxes.saw_traffic))
        announce()
        host, number = port.getsockname()[:2]
        log.info("listening on http://%s:%d with the %s runtime", host, number, runtime.name)
        yield api, front, care


def _end_all(sandboxes: Sandboxes) -> Callable[..., Awaitable[None]]:
    async def end(fault: type[BaseException] | None, *_: object) -> None:
        if fault is None:  # a server that fails leaves them running
            await sandboxes.end_all()

    return end


@contextlib.asynccontextmanager
async def _open_api(
    app: FastAPI, settings: Settings, run_dir: Path, ingress_gid: int | None
) -> AsyncIterator[asyncio.Task[None]]:
    """Answer the API on its socket; left only when ingress is gone and nobody can ask more."""
    path, backlog = run_dir / API_SOCKET, settings.server.backlog
    server = _ApiServer(_uvicorn_config(app, settings))
    with listen_unix(path, mode=0o660, gid=ingress_gid, backlog=backlog) as local:
        answering = asyncio.create_task(server.serve(sockets=[local]), name="api")
        try:
            yield answering
        finally:
            server.should_exit = True
            await answering
            path.unlink(missing_ok=True)


def runtime_home(settings: Settings, ingress_gid: int | None) -> RuntimeHome:
    """Return what the chosen runtime is made with."""
    return RuntimeHome(
        data_dir=settings.data_dir,
        run_dir=DataDir(settings.data_dir).run,
        execd=find_program("execd", settings.server.bin_dir),
        ingress_gid=ingress_gid,
        options=settings.runtime_options.get(settings.runtime.type, {}),
    )


def _refuse_what_is_not_built(settings: Settings) -> None:
    if settings.tenants.provider:
        raise StartupError("tenants.provider: this version serves one owner only")
    if kind := settings.secure_runtime.type:
        raise StartupError(f"secure_runtime.type: this version has no {kind}; leave it empty")


class _ApiServer(uvicorn.Server):
    """Leaves signals to us: ingress must be drained before the API goes."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    server = settings.server
    return uvicorn.Config(
        app,
        lifespan="off",  # everything is open already
        http="httptools" if server.http == "auto" else server.http,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=server.timeout_keep_alive,
        timeout_graceful_shutdown=server.timeout_graceful_shutdown,
        limit_concurrency=server.limit_concurrency or None,
        backlog=server.backlog,
    )


def _end_signals() -> asyncio.Event:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


async def _until(ended: asyncio.Event, *parts: asyncio.Task[Any]) -> None:
    """Wait for a signal. Raises PartEnded when one of the parts ends before it."""
    waiting = asyncio.create_task(ended.wait(), name="wait for a signal")
    try:
        await asyncio.wait({waiting, *parts}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if not ended.is_set():
        gone = ", ".join(part.get_name() for part in parts if part.done())
        raise PartEnded(f"{gone} ended, so the server ends; sandboxes run on")


@contextlib.contextmanager
def _startup_faults() -> Iterator[None]:
    try:
        yield
    except RuntimeUnavailable as fault:
        raise StartupError(f"the runtime cannot work here: {fault}") from fault
    except OSError as fault:
        if not is_full(fault):
            raise
        raise StartupError(explain(fault)) from fault
