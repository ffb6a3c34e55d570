# SPDX-License-Identifier: Apache-2.0
"""Runs code inside a sandbox in shells that see less of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from pydantic import BaseModel, TypeAdapter

from opensandbox._events import Kind
from opensandbox._requests import isolated_run_body, read_cursor, segment
from opensandbox._resuming import Ask, Once
from opensandbox.models import ExecutionHandlers
from opensandbox.models.execd import Execution
from opensandbox.models.isolated import (
    BindMount,
    CreateIsolatedSessionRequest,
    IsolatedBackgroundRun,
    IsolatedCapabilities,
    IsolatedRunLogs,
    IsolatedRunOpts,
    IsolatedRunStatus,
    IsolatedSessionInfo,
    IsolatedSessionState,
    IsolatedSessionSummary,
    IsolatedWorkspaceSpec,
)

from .files import Files
from .following import Following, new_fold
from .transport import Remote

CURSOR_HEADER = "EXECD-ISOLATED-TAIL-CURSOR"
_ROOT = "/v1/isolated"

Binds = list[BindMount]


class _NewSession(BaseModel):
    session_id: str
    created_at: datetime | None = None


class _Sessions(BaseModel):
    sessions: list[IsolatedSessionSummary]


_NEW = TypeAdapter(_NewSession)
_STATE = TypeAdapter(IsolatedSessionState)
_SESSIONS = TypeAdapter(_Sessions)
_CAPABILITIES = TypeAdapter(IsolatedCapabilities)
_BACKGROUND = TypeAdapter(IsolatedBackgroundRun)
_STATUS = TypeAdapter(IsolatedRunStatus)


class IsolationSession:
    """One isolated shell. It ends when deleted, when idle for too long, or with the sandbox."""

    def __init__(self, info: IsolatedSessionInfo, execd: Remote) -> None:
        """Hold a session; most callers want ``Isolation.create`` or ``session``."""
        self._info = info
        self._execd = execd
        self._path = f"{_ROOT}/session/{segment(info.session_id, 'session_id')}"

    @property
    def session_id(self) -> str:
        """Its id."""
        return self._info.session_id

    @property
    def info(self) -> IsolatedSessionInfo:
        """How it was made."""
        return self._info

    @property
    def files(self) -> Files:
        """The files it sees."""
        return Files(self._execd, self._path)

    async def run(
        self,
        code: str,
        *,
        opts: IsolatedRunOpts | None = None,
        handlers: ExecutionHandlers | None = None,
    ) -> Execution:
        """Run shell text and return what came of it; look at ``exit_code`` and ``error``."""
        ask = Ask("POST", f"{self._path}/run", json=isolated_run_body(code, opts))
        fold = new_fold(Kind.COMMAND, handlers)
        await Following(self._execd, fold, Once(), handlers).run(ask)
        return fold.finish()

    async def run_background(
        self, code: str, *, opts: IsolatedRunOpts | None = None
    ) -> IsolatedBackgroundRun:
        """Start shell text and return at once."""
        body = {**isolated_run_body(code, opts), "background": True}
        return await self._execd.ask(_BACKGROUND, "POST", f"{self._path}/run", json=body)

    async def run_status(self, run_id: str) -> IsolatedRunStatus:
        """Return what became of a background run so far."""
        path = f"{self._path}/runs/{segment(run_id, 'run_id')}"
        return await self._execd.ask(_STATUS, "GET", path)

    async def run_logs(self, run_id: str, cursor: int = 0) -> IsolatedRunLogs:
        """Return what a background run wrote since ``cursor``."""
        path = f"{self._path}/runs/{segment(run_id, 'run_id')}/logs"
        query = [("cursor", str(cursor))] if cursor else None
        response = await self._execd.send("GET", path, query=query)
        text = response.content.decode(errors="replace")
        following = read_cursor(response.headers.get(CURSOR_HEADER))
        return IsolatedRunLogs(text=text, cursor=cursor if following is None else following)

    async def get(self) -> IsolatedSessionState:
        """Return the session as it is now."""
        return await self._execd.ask(_STATE, "GET", self._path)

    async def delete(self) -> None:
        """End the session and what runs in it."""
        await self._execd.send("DELETE", self._path)


class Isolation:
    """Isolated sessions of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    async def create(self, request: CreateIsolatedSessionRequest) -> IsolationSession:
        """Start a session."""
        body = request.to_wire()
        made = await self._execd.ask(_NEW, "POST", f"{_ROOT}/session", json=body)
        info = IsolatedSessionInfo.model_validate({**body, **made.model_dump()})
        return IsolationSession(info, self._execd)

    async def attach(self, session_id: str) -> IsolationSession:
        """Hold a session that exists."""
        path = f"{_ROOT}/session/{segment(session_id, 'session_id')}"
        state = await self._execd.ask(_STATE, "GET", path)
        known = {**state.model_dump(), "session_id": session_id}
        return IsolationSession(IsolatedSessionInfo.model_validate(known), self._execd)

    async def capabilities(self) -> IsolatedCapabilities:
        """Return what this sandbox can do for isolated sessions."""
        return await self._execd.ask(_CAPABILITIES, "GET", f"{_ROOT}/capabilities")

    async def list(self) -> list[IsolatedSessionSummary]:
        """Return the sessions there are."""
        return (await self._execd.ask(_SESSIONS, "GET", f"{_ROOT}/sessions")).sessions

    async def run_once(
        self,
        code: str,
        *,
        workspace: str,
        workspace_mode: str | None = None,
        opts: IsolatedRunOpts | None = None,
        handlers: ExecutionHandlers | None = None,
        profile: str | None = None,
        share_net: bool | None = None,
        binds: Binds | None = None,
    ) -> Execution:
        """Run shell text in a session of its own, which ends with it."""
        request = CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path=workspace, mode=workspace_mode),
            profile=profile,
            share_net=share_net,
            binds=binds,
        )
        async with self.session(request) as session:
            return await session.run(code, opts=opts, handlers=handlers)

    @asynccontextmanager
    async def session(
        self, request: CreateIsolatedSessionRequest
    ) -> AsyncIterator[IsolationSession]:
        """Start a session that ends with the block."""
        session = await self.create(request)
        try:
            yield session
        finally:
            await session.delete()
