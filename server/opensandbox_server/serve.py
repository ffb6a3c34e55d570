# SPDX-License-Identifier: Apache-2.0
"""Serving: the public port, ingress, the API behind it, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI

from opensandbox_server.api.keys import ApiKeys
from opensandbox_server.app import build_app
from opensandbox_server.errors import PartEnded, StartupError
from opensandbox_server.host.data_dir import DataDir, open_data_dir, read_or_make_secret
from opensandbox_server.host.full_disk import explain, is_full
from opensandbox_server.host.priority import run_before_others
from opensandbox_server.host.programs import find_program
from opensandbox_server.host.sockets import listen_tcp, listen_unix
from opensandbox_server.ingress.endpoints import Endpoints, Signer
from opensandbox_server.ingress.ingress import API_SOCKET, Ingress, IngressConfig, open_ingress
from opensandbox_server.ingress.user import Identity, ingress_identity
from opensandbox_server.runtimes import make_runtime
from opensandbox_server.runtimes.base import Runtime, RuntimeHome, RuntimeUnavailable
from opensandbox_server.settings.settings import Settings
from opensandbox_server.telemetry.stalls import watch_stalls

log = logging.getLogger(__name__)

MADE_KEY_ID = "0"
"""Id of the signing key that the server makes by itself."""


_KEY_NOTICE = """\
A new API key was made. It is shown only now:

    {key}

Clients take it from OPEN_SANDBOX_API_KEY. The server keeps it in {path}."""


def serve(settings: Settings, *, stops_sandboxes: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError with nothing half-made."""
    _refuse_what_is_not_built(settings)
    server = settings.server
    with (
        ingress_identity(settings) as ingress_as,
        open_data_dir(settings.data_dir, gid := ingress_as.gid if ingress_as else None) as data,
        listen_tcp(server.host, server.port, server.backlog) as public,
    ):
        runtime = make_runtime(settings.runtime.type, runtime_home(settings, gid))
        with _api_key(settings, data) as (keys, welcome):
            signers = signing_keys(settings, data)
            plan = ingress_config(settings, data, public, keys, signers, ingress_as)
            ways = Endpoints(settings.ingress, signers[0], server.eip)
            run = _Run(settings, runtime, plan, keys, ways, gid, stops_sandboxes, welcome)
            with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
                runner.run(run.until_signalled())


@dataclass(frozen=True, slots=True)
class _Run:
    """One life of the server, from inside its event loop."""

    settings: Settings
    runtime: Runtime
    plan: IngressConfig
    keys: ApiKeys
    ways: Endpoints
    ingress_gid: int | None
    stops_sandboxes: bool
    welcome: Callable[[], None]

    async def until_signalled(self) -> None:
        """Open everything, wait for a signal, close everything in reverse."""
        app: FastAPI
        ingress = Ingress(self.plan, lambda activity: app.state.sandboxes.saw_traffic(activity))
        ballast = DataDir(self.settings.data_dir).ballast
        app = build_app(self.settings, self.runtime, ingress, self.keys, self.ways, ballast)
        ended = _end_signals()
        with _startup_faults():
            async with app.router.lifespan_context(app):
                async with self._answering(app) as answering, open_ingress(ingress) as door:
                    self._greet()
                    gc.freeze()  # what exists by now stays; looking through it stalls the loop
                    run_before_others()
                    async with watch_stalls():
                        await _until(ended, answering, door, app.state.caring)
                    log.info("stopping; sandboxes %s", "end" if self.stops_sandboxes else "run on")
                if self.stops_sandboxes:
                    await app.state.sandboxes.end_all()

    @contextlib.asynccontextmanager
    async def _answering(self, app: FastAPI) -> AsyncIterator[asyncio.Task[None]]:
        """Answer the API on its socket; left only when ingress is gone and nobody can ask more."""
        path = self.plan.run_dir / API_SOCKET
        backlog = self.settings.server.backlog
        server = _ApiServer(_uvicorn_config(app, self.settings))
        with listen_unix(path, mode=0o660, gid=self.ingress_gid, backlog=backlog) as local:
            answering = asyncio.create_task(server.serve(sockets=[local]), name="api")
            try:
                yield answering
            finally:
                server.should_exit = True
                await answering
                path.unlink(missing_ok=True)

    def _greet(self) -> None:
        self.welcome()
        host, port = self.plan.listener.getsockname()[:2]
        log.info("listening on http://%s:%d with the %s runtime", host, port, self.runtime.name)


def runtime_home(settings: Settings, ingress_gid: int | None) -> RuntimeHome:
    """Return what the chosen runtime is made with."""
    return RuntimeHome(
        data_dir=settings.data_dir,
        run_dir=DataDir(settings.data_dir).run,
        execd=find_program("execd", settings.server.bin_dir),
        ingress_gid=ingress_gid,
        options=settings.runtime_options.get(settings.runtime.type, {}),
    )


def signing_keys(settings: Settings, data: DataDir) -> list[Signer]:
    """Return every key that verifies signed routes; the first one signs."""
    access = settings.ingress.secure_access
    if not access.keys:
        secret, _ = read_or_make_secret(data.signing_key)
        return [Signer(MADE_KEY_ID, secret.encode())]
    active = access.active_key or access.keys[0].key_id
    found = [Signer(entry.key_id, b64decode(entry.key)) for entry in access.keys]
    return sorted(found, key=lambda signer: signer.key_id != active)


def ingress_config(
    settings: Settings,
    data: DataDir,
    public: socket.socket,
    keys: ApiKeys,
    signers: list[Signer],
    ingress_as: Identity | None,
) -> IngressConfig:
    """Say how ingress is started. Raises StartupError when there is no such program."""
    program = find_program("ingress", settings.server.bin_dir)
    if program is None:
        raise StartupError("cannot find the ingress program; build it with: make build")
    return IngressConfig(
        program=program,
        listener=public,
        run_dir=data.run,
        settings=_control_config(settings, keys, signers),
        drop=f"{ingress_as.uid}:{ingress_as.gid}" if ingress_as else "",
        grace_seconds=settings.server.timeout_graceful_shutdown,
        max_connections=settings.ingress.max_connections,
        max_connections_per_peer=settings.ingress.max_connections_per_peer,
    )


def _control_config(settings: Settings, keys: ApiKeys, signers: list[Signer]) -> Mapping[str, Any]:
    gateway = settings.ingress.gateway
    mode = gateway.route.mode if settings.ingress.mode == "gateway" else ""
    return {
        "apiKeyHashes": list(keys.sums),
        "signing": {signer.key_id: b64encode(signer.key).decode() for signer in signers},
        "acceptsShortSignatures": settings.ingress.secure_access.accepts_short_signatures,
        "domain": gateway.address if mode == "wildcard" else settings.server.domain,
        "multiTenant": False,
        "routesByURI": mode == "uri",
    }


@contextlib.contextmanager
def _api_key(settings: Settings, data: DataDir) -> Iterator[tuple[ApiKeys, Callable[[], None]]]:
    """Yield the keys, and what greets the operator once the server listens.

    A key that was made for a start that failed is thrown away: nobody has seen it.
    """
    if settings.server.api_key or settings.is_insecure:
        key = settings.server.api_key
        keys = ApiKeys.of([key]) if key else ApiKeys(is_open=True)
        warning = "no API key is needed: whoever reaches the port may do everything"
        yield keys, (lambda: log.warning(warning)) if keys.is_open else (lambda: None)
        return
    key, is_new = read_or_make_secret(data.api_key)
    unseen = is_new

    def show() -> None:
        nonlocal unseen
        if unseen:
            print(_KEY_NOTICE.format(key=key, path=data.api_key), flush=True)
        unseen = False

    try:
        yield ApiKeys.of([key]), show
    finally:
        if unseen:
            data.api_key.unlink(missing_ok=True)


def _refuse_what_is_not_built(settings: Settings) -> None:
    if settings.tenants.provider:
        raise StartupError("tenants.provider: this version serves one owner only")
    if settings.store.type != "sqlite":
        raise StartupError("store.type: this version keeps its store in sqlite only")
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
        lifespan="off",  # entered by us, so that its faults reach us
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


def _loop_factory(settings: Settings) -> Any:
    return asyncio.new_event_loop if settings.server.loop == "asyncio" else uvloop.new_event_loop


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
