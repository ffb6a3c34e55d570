# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: the rules that hold for every runtime. Knows no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from opensandbox.models import CreateSandboxRequest, SandboxState
from opensandbox_server import errors
from opensandbox_server.host.supervision import Supervised
from opensandbox_server.ingress.routes import Routes
from opensandbox_server.runtimes import base
from opensandbox_server.sandboxes import states
from opensandbox_server.sandboxes.admission import admit
from opensandbox_server.sandboxes.expiry import RETRY_SECONDS, Expiry
from opensandbox_server.sandboxes.following import Following
from opensandbox_server.sandboxes.idempotency import Idempotency
from opensandbox_server.sandboxes.metadata import patch_metadata
from opensandbox_server.sandboxes.notes import Notes
from opensandbox_server.sandboxes.principal import Principal
from opensandbox_server.sandboxes.reconcile import Adopt, End, Leave, MarkLost, plan
from opensandbox_server.sandboxes.renewal import RenewalByTraffic, later_end
from opensandbox_server.sandboxes.runtime_faults import faults_of_runtime
from opensandbox_server.sandboxes.sandbox import Sandbox, refresh_route
from opensandbox_server.sandboxes.states import Status
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store.store import (
    START_SECONDS,
    Event,
    KeyTaken,
    Query,
    Store,
    StoreConflict,
    UsedKey,
)
from opensandbox_server.store.stored import StoredSandbox
from opensandbox_server.telemetry.spans import span

log = logging.getLogger(__name__)

CLEANUPS_AT_ONCE = 8
"""Sandboxes ended side by side after a restart."""

MOST_CONFLICTS = 20
"""How often a change is tried again that somebody else was faster with."""

_UNKNOWN = "the store has no row of it that can be read; see: opensandbox-server leftovers list"


class Sandboxes:
    """All sandboxes of this server."""

    def __init__(
        self, settings: Settings, runtime: base.Runtime, store: Store, routes: Routes
    ) -> None:
        """Take what everything is made of; reconcile before the first request."""
        self._settings = settings
        self._runtime = runtime
        self._store = store
        self._routes = routes
        self._all: dict[str, Sandbox] = {}
        self._idempotency = Idempotency()
        self._notes = Notes(store)
        self._expiry = Expiry(self.expire)
        self._following = Following(store, runtime, routes, self._all, self._schedule)
        self._renewal = RenewalByTraffic(self._renew_by_traffic)
        self._events: AsyncIterator[base.RuntimeEvent] | None = None
        self._has_looked = True  # nothing can have been missed since the events began
        self._tasks = [
            Supervised("expiry", self._expiry.run),
            Supervised("renewal by traffic", self._renewal.run),
            Supervised("the watch of the runtime", self._watch),
            Supervised("late notes", self._notes.catch_up),
            Supervised("changes by other servers", self._following.run),
            Supervised("late changes by other servers", self._following.run_late),
            Supervised("the store", store.recover),
            Supervised("the upkeep of the store", store.upkeep),
        ]

    @property
    def runtime_name(self) -> str:
        """The name of the runtime, which is part of some error codes."""
        return self._runtime.name

    # What clients ask for.

    async def create(
        self, by: Principal, request: CreateSandboxRequest, key: str | None = None
    ) -> Sandbox:
        """Make a sandbox; usable when this returns. The same key and request make only one."""
        if key is None:
            return await self._create(by, request)
        fingerprint = hashlib.sha256(request.model_dump_json().encode()).hexdigest()

        async def make() -> Sandbox:
            return await self._create(by, request, key, fingerprint)

        find = self._following.wait_for_answer
        return await self._idempotency.once((by.owner, key), fingerprint, make, find)

    async def list(
        self, by: Principal, wanted_states: Collection[str], metadata: Mapping[str, str]
    ) -> Sequence[Sandbox]:
        """Return those in any of the states, with all of the metadata, newest first."""
        await self._following.catch_up()
        names = {name.lower() for name in wanted_states}
        return [
            sandbox
            for sandbox in self._newest_first()
            if sandbox.is_stored
            and sandbox.stored.owner == by.owner
            and (not names or sandbox.status.state.lower() in names)
            and metadata.items() <= sandbox.stored.metadata.items()
        ]

    async def get(self, by: Principal, sandbox_id: str) -> Sandbox:
        """Return one. Raises SandboxNotFound, for one of another owner too."""
        await self._following.catch_up()
        sandbox = self._all.get(sandbox_id)
        if sandbox is None or not sandbox.is_stored or sandbox.stored.owner != by.owner:
            raise errors.SandboxNotFound(sandbox_id)
        return sandbox

    async def patch_metadata(
        self, by: Principal, sandbox_id: str, patch: Mapping[str, str | None]
    ) -> Sandbox:
        """Set and remove tags."""
        async with self._hold(sandbox_id, by) as sandbox:

            def change(stored: StoredSandbox) -> StoredSandbox:
                return replace(stored, metadata=patch_metadata(stored.metadata, patch))

            await self._want(sandbox, change, "MetadataChanged")
            return sandbox

    async def delete(self, by: Principal, sandbox_id: str) -> None:
        """End it and everything of it."""
        async with self._hold(sandbox_id, by) as sandbox:
            await self._end(sandbox)

    async def renew(self, by: Principal, sandbox_id: str, expires_at: datetime) -> datetime:
        """Choose another end of life, sooner or later than the present one."""
        try:
            expires_at = expires_at.astimezone(UTC)
        except OverflowError as fault:
            raise errors.InvalidExpiration("expiresAt is beyond the calendar.") from fault
        async with self._hold(sandbox_id, by) as sandbox:
            if sandbox.stored.expires_at is None:
                raise errors.NoExpiration("The sandbox has no expiry: it lives until it is killed.")
            if expires_at <= datetime.now(UTC):
                raise errors.InvalidExpiration("expiresAt must be in the future.")
            life = (expires_at - datetime.now(UTC)).total_seconds()
            if self._longest and life > self._longest:
                most = f"expiresAt may be {self._longest} s from now at most."
                raise errors.InvalidExpiration(most)
            await self._renew(sandbox, expires_at)
            return expires_at

    async def pause(self, by: Principal, sandbox_id: str) -> None:
        """Freeze it. Requests are refused first, so that none hangs in a frozen sandbox."""
        async with self._hold(sandbox_id, by) as sandbox:
            if sandbox.status.state != SandboxState.RUNNING:
                raise errors.NotRunning(f"Sandbox {sandbox_id} is {sandbox.status.state}.")
            async with self._changing(sandbox, SandboxState.PAUSING):
                await self._routes.put(sandbox.route(is_paused=True))
                with faults_of_runtime(errors.PauseFault):
                    await self._runtime.pause(sandbox_id)
                self._see_state(sandbox, base.InstanceState.PAUSED)
            await self._notes.note(sandbox_id, "Paused", state=sandbox.status.state)

    async def resume(self, by: Principal, sandbox_id: str) -> None:
        """Thaw it; requests pass again when this returns."""
        async with self._hold(sandbox_id, by) as sandbox:
            if sandbox.status.state != SandboxState.PAUSED:
                raise errors.NotPaused(f"Sandbox {sandbox_id} is {sandbox.status.state}.")
            async with self._changing(sandbox, SandboxState.RESUMING):
                with faults_of_runtime(errors.ResumeFault):
                    sandbox.instance = await self._runtime.resume(sandbox_id)
                await self._routes.put(sandbox.route(is_paused=False))
                self._see_state(sandbox, base.InstanceState.RUNNING)
            await self._notes.note(sandbox_id, "Resumed", state=sandbox.status.state)

    async def inspect(self, by: Principal, sandbox_id: str) -> base.Inspection:
        """Return what the runtime knows of it, with its logs."""
        sandbox = await self.get(by, sandbox_id)
        try:
            with faults_of_runtime(errors.QueryFault):
                return await self._runtime.inspect(sandbox_id)
        except (errors.NotRunning, errors.QueryFault):
            if sandbox.status.state == SandboxState.STOPPING:  # gone, and not yet forgotten
                raise errors.SandboxNotFound(sandbox_id) from None
            raise

    async def events(self, by: Principal, sandbox_id: str, limit: int) -> Sequence[Event]:
        """Return what happened to it lately, oldest first."""
        await self.get(by, sandbox_id)
        return await self._store.events(sandbox_id, limit)

    def all_states(self) -> Sequence[SandboxState]:
        """Return the states of all sandboxes, whoever owns them, for counting."""
        return [sandbox.status.state for sandbox in self._all.values() if sandbox.is_stored]

    # What happens by itself.

    async def reconcile(self) -> None:
        """Adopt what runs, end what expired, leave what nobody knows. Once, before all else.

        Raises StartupError when the store is not that of the sandboxes which are here.
        """
        if self._store.is_shared:
            await self._join()
            return
        stored = [*reversed(await self._store.query(Query()))]
        seen = await self._runtime.instances()
        await self._store.belong([instance.id for instance in seen])
        limit = asyncio.Semaphore(CLEANUPS_AT_ONCE)
        async with asyncio.TaskGroup() as cleanups:
            for action in plan(stored, seen, datetime.now(UTC)):
                match action:
                    case Adopt(each, instance):
                        await self._adopt(each, instance)
                    case MarkLost(each):
                        status = states.lost()
                        self._all[each.id] = Sandbox(each, status)
                        self._schedule(each.id, each)
                        await self._notes.note(each.id, "Lost", state=status.state)
                    case End(each, why):
                        log.info("sandbox %s ends: %s", each.id, why)
                        sandbox = self._all[each.id] = Sandbox(each)
                        cleanups.create_task(self._clean_up(sandbox, limit))
                    case Leave(instance):
                        log.warning("sandbox %s is left as it is: %s", instance.id, _UNKNOWN)

    async def _join(self) -> None:
        """Take over what other servers have made, and may just be making or ending."""
        await self._following.catch_up()
        for instance in await self._runtime.instances():
            if instance.id not in self._all:
                log.warning("sandbox %s is left as it is: %s", instance.id, _UNKNOWN)

    async def run(self, events: AsyncIterator[base.RuntimeEvent]) -> None:
        """Keep everything that happens by itself going until cancelled."""
        self._events = events
        async with asyncio.TaskGroup() as tasks:
            for each in self._tasks:
                tasks.create_task(each.run(), name=each.name)

    @property
    def down(self) -> Sequence[str]:
        """Name what does not work right now."""
        return [name for name, works in self.parts.items() if not works]

    @property
    def parts(self) -> Mapping[str, bool]:
        """Name everything that must work, and whether it does right now."""
        tasks = {each.name: not each.is_down for each in self._tasks}
        runtime, store = not self._runtime.trouble, not self._store.trouble
        return {"ingress": self._routes.is_open, "runtime": runtime, "store": store, **tasks}

    @property
    def streams(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, how many streams to sandboxes are open and were begun."""
        return self._routes.streams

    async def end_all(self) -> None:
        """End every sandbox, some at a time; none where other servers have them, too."""
        if self._store.is_shared:
            log.warning("sandboxes run on: other servers use them, too")
            return
        limit = asyncio.Semaphore(CLEANUPS_AT_ONCE)
        await asyncio.gather(*(self._clean_up(sandbox, limit) for sandbox in self._all.values()))

    async def expire(self, sandbox_id: str) -> None:
        """End it, unless it was given a longer life in this moment; repeats safely."""
        with contextlib.suppress(errors.SandboxNotFound):
            async with self._hold(sandbox_id) as sandbox:
                if sandbox_id in self._expiry:
                    return
                is_ending = sandbox.status.state == SandboxState.STOPPING
                if not is_ending and (wait := await self._store.due(sandbox_id)):
                    self._expiry.set(sandbox_id, time.time() + wait)
                    return
                await self._end(sandbox)

    def saw_traffic(self, activity: Mapping[str, int]) -> None:
        """Hear from ingress which sandboxes were used."""
        if self._settings.renew_intent.enabled:
            self._renewal.saw(activity)

    # How it is done.

    async def _create(
        self, by: Principal, request: CreateSandboxRequest, key: str = "", fingerprint: str = ""
    ) -> Sandbox:
        features_of, now = self._runtime.features_of, datetime.now(UTC)
        admitted = admit(request, by.owner, features_of, self._longest, now)
        stored = replace(admitted, is_repeatable=bool(key))
        used = UsedKey(stored.owner, key, fingerprint, stored.id) if key else None
        auth = request.image.auth if request.image else None
        sandbox = Sandbox(stored, is_stored=False)
        async with sandbox.held():
            try:
                login = (auth.username, auth.password) if auth else None
                secrets = base.Secrets(stored.execd_token, login)
                await self._start(sandbox, secrets, used)
            except KeyTaken:  # nothing was begun
                del self._all[stored.id]
                raise
            except BaseException:
                await asyncio.shield(self._undo(sandbox))
                raise
        self._schedule(stored.id, sandbox.stored)
        return sandbox

    async def _start(self, sandbox: Sandbox, secrets: base.Secrets, key: UsedKey | None) -> None:
        # Remembered before it starts: what the store does not know is nobody's and is left alone.
        self._all[sandbox.stored.id] = sandbox
        with span("store"):
            await self._store.insert(sandbox.stored, key)
        sandbox.is_stored = True
        with span("runtime"), faults_of_runtime(errors.StartFault):
            instance = await self._runtime.start(sandbox.stored.spec, secrets)
        sandbox.instance = instance
        with span("route"):
            await self._routes.put(sandbox.route(is_paused=False))
        with span("store"):
            await self._want(sandbox, _answered, "Started", state=SandboxState.RUNNING)
        sandbox.see(instance)

    async def _undo(self, sandbox: Sandbox) -> None:
        try:
            await self._end(sandbox, frees_key=True)
        except errors.RequestRefused:
            log.exception("sandbox %s was left half-made and is ended later", sandbox.stored.id)

    async def _end(self, sandbox: Sandbox, *, frees_key: bool = False) -> None:
        sandbox_id = sandbox.stored.id
        sandbox.status = Status(SandboxState.STOPPING, "CONTAINER_STOPPING")
        try:
            with contextlib.suppress(errors.IngressUnavailable):  # the next never hears of it
                await self._routes.delete(sandbox_id)
            with faults_of_runtime(errors.DeleteFault):
                await self._runtime.stop(sandbox_id)
            is_half_made = not sandbox.stored.has_answered
            await self._store.delete(sandbox_id, frees_key=frees_key or is_half_made)
            if is_half_made and self._store.is_shared:  # its maker may have started it meanwhile
                with faults_of_runtime(errors.DeleteFault):
                    await self._runtime.stop(sandbox_id)
        except BaseException:
            self._expiry.set(sandbox_id, time.time() + RETRY_SECONDS)
            raise
        self._expiry.cancel(sandbox_id)
        self._all.pop(sandbox_id, None)

    async def _clean_up(self, sandbox: Sandbox, limit: asyncio.Semaphore) -> None:
        async with limit, sandbox.held():
            if self._all.get(sandbox.stored.id) is sandbox:
                await self._undo(sandbox)

    async def _adopt(self, stored: StoredSandbox, instance: base.Instance) -> None:
        sandbox = self._all[stored.id] = Sandbox(stored)
        sandbox.see(instance)
        self._schedule(stored.id, stored)
        await refresh_route(self._routes, sandbox)
        await self._want(sandbox, _answered, "Adopted", state=sandbox.status.state)

    async def _watch(self) -> None:
        """Take the runtime's events until they end. After that, and after a fault, call again."""
        if self._events is None:
            self._events, self._has_looked = self._runtime.watch(), False
        if not self._has_looked:
            await self._look_again()
            self._has_looked = True
        while True:
            try:
                event = await anext(self._events, None)
            except Exception:
                self._events = None
                raise
            if event is None:
                self._events = None
                return
            await self._saw(event.instance)

    async def _look_again(self) -> None:
        """Catch up on what happened while nobody watched."""
        present = set(self._all)
        seen = {instance.id: instance for instance in await self._runtime.instances()}
        for sandbox_id in present:
            if sandbox_id not in seen:
                await self._missed(sandbox_id)
            elif seen[sandbox_id].state == base.InstanceState.EXITED:
                await self._saw(seen[sandbox_id])

    async def _missed(self, sandbox_id: str) -> None:
        with contextlib.suppress(errors.SandboxNotFound):
            async with self._hold(sandbox_id) as sandbox:
                if sandbox.status.state in {SandboxState.RUNNING, SandboxState.PAUSED}:
                    sandbox.status = states.lost()

    async def _saw(self, instance: base.Instance) -> None:
        with contextlib.suppress(errors.SandboxNotFound):
            async with self._hold(instance.id) as sandbox:
                before = sandbox.status.state
                sandbox.see(instance)
                if instance.state == base.InstanceState.EXITED and sandbox.status.state != before:
                    with contextlib.suppress(errors.IngressUnavailable):
                        await self._routes.delete(instance.id)
                    status = sandbox.status
                    await self._notes.note(
                        instance.id, "Exited", status.message, state=status.state
                    )

    async def _renew_by_traffic(self, sandbox_id: str) -> None:
        async with self._hold(sandbox_id) as sandbox:
            pause = self._settings.renew_intent.min_interval_seconds
            is_due = time.time() - sandbox.renewed_at >= pause
            if not is_due or sandbox.status.state != SandboxState.RUNNING:
                return
            if later := later_end(sandbox.stored, datetime.now(UTC), self._longest):
                await self._renew(sandbox, later)
            sandbox.renewed_at = time.time()

    @property
    def _longest(self) -> int | None:
        return self._settings.server.max_sandbox_timeout_seconds

    async def _renew(self, sandbox: Sandbox, expires_at: datetime) -> None:
        def change(stored: StoredSandbox) -> StoredSandbox:
            if self._store.is_shared and stored.has_expired(datetime.now(UTC)):
                raise errors.SandboxNotFound(stored.id)  # another server may be ending it
            return replace(stored, expires_at=expires_at)

        await self._want(sandbox, change, "Renewed", expires_at.isoformat())
        self._schedule(sandbox.stored.id, sandbox.stored)

    async def _want(
        self,
        sandbox: Sandbox,
        change: Callable[[StoredSandbox], StoredSandbox],
        kind: str,
        message: str = "",
        *,
        state: str = "",
    ) -> None:
        """Change what is wanted. Where somebody else did so meanwhile, change what that left."""
        for _ in range(MOST_CONFLICTS):
            before, wanted = sandbox.stored, change(sandbox.stored)
            try:
                revision = await self._store.update(
                    wanted, before.revision, kind, message, state=state
                )
            except StoreConflict as fault:
                if (fresh := await self._store.get(before.id)) is None:
                    raise errors.SandboxNotFound(before.id) from fault
                sandbox.stored = fresh
            else:
                sandbox.stored = replace(wanted, revision=revision)
                return
        raise errors.StoreFault(f"Sandbox {sandbox.stored.id} is being changed by too many.")

    def _schedule(self, sandbox_id: str, stored: StoredSandbox | None) -> None:
        """Plan the end of a sandbox; of one that is gone, none."""
        at = stored.expires_at if stored else None
        if stored and self._store.is_shared and not stored.has_answered:
            at = stored.created_at + timedelta(seconds=START_SECONDS)
        self._expiry.set(sandbox_id, at.timestamp() if at else None)

    def _newest_first(self) -> Iterable[Sandbox]:
        if not self._store.is_shared:
            return reversed(self._all.values())  # in the order in which they were made
        return sorted(
            self._all.values(), key=lambda sandbox: sandbox.stored.created_at, reverse=True
        )

    def _see_state(self, sandbox: Sandbox, state: base.InstanceState) -> None:
        assert sandbox.instance is not None
        sandbox.see(replace(sandbox.instance, state=state))

    @contextlib.asynccontextmanager
    async def _hold(self, sandbox_id: str, by: Principal | None = None) -> AsyncIterator[Sandbox]:
        """Have a sandbox for oneself; it still exists once it is held. The server may hold any."""
        if by:
            await self._following.catch_up()
        sandbox = self._all.get(sandbox_id)
        if sandbox is None or (by and sandbox.stored.owner != by.owner):
            raise errors.SandboxNotFound(sandbox_id)
        async with sandbox.held():
            if self._all.get(sandbox_id) is not sandbox:
                raise errors.SandboxNotFound(sandbox_id)
            yield sandbox

    @contextlib.asynccontextmanager
    async def _changing(self, sandbox: Sandbox, state: SandboxState) -> AsyncIterator[None]:
        """Show a passing state; put everything back when the change fails."""
        before = sandbox.status
        sandbox.status = Status(state)
        try:
            yield
        except BaseException:
            sandbox.status = before
            was_paused = before.state == SandboxState.PAUSED
            with contextlib.suppress(errors.IngressUnavailable):
                await asyncio.shield(self._routes.put(sandbox.route(is_paused=was_paused)))
            raise


def _answered(stored: StoredSandbox) -> StoredSandbox:
    return replace(stored, has_answered=True)


@contextlib.asynccontextmanager
async def open_sandboxes(
    settings: Settings, runtime: base.Runtime, store: Store, routes: Routes
) -> AsyncIterator[tuple[Sandboxes, asyncio.Task[None]]]:
    """Find the sandboxes there are and care for them; they go on when this is left.

    Yields also the task that cares for them, which has no end of its own. Raises StartupError.
    """
    sandboxes = Sandboxes(settings, runtime, store, routes)
    events = runtime.watch()  # before looking, so that nothing happens unseen in between
    await sandboxes.reconcile()
    caring = asyncio.create_task(sandboxes.run(events), name="the care of sandboxes")
    try:
        yield sandboxes, caring
    finally:
        caring.cancel()
        await asyncio.gather(caring, return_exceptions=True)
