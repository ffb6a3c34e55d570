# SPDX-License-Identifier: Apache-2.0
"""What a program does with the calls whose server side may be missing yet.

Each function is one exchange of ``specs/exchanges``, by its name: it makes the calls recorded there
and looks at what they return. It runs with any client that has the published names.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.isolated import (
    BindMount,
    CreateIsolatedSessionRequest,
    EnvPassthroughSpec,
    IsolatedOverlaySpec,
    IsolatedRunOpts,
    IsolatedWorkspaceSpec,
)
from opensandbox.models.sandboxes import (
    OSSFS,
    PVC,
    CredentialProxyConfig,
    Host,
    LifecycleHook,
    NetworkPolicy,
    NetworkRule,
    PeriodicLifecycleHook,
    PlatformSpec,
    SandboxImageAuth,
    SandboxImageSpec,
    SandboxLifecycle,
    SnapshotFilter,
    Volume,
)
from opensandbox.models.templates import CreateTemplateRequest, TemplateFilter, TemplateReadiness

SANDBOX = "5e5b1d0c-8d6a-4f0e-9d3b-6f1c2a3b4c5d"
SNAPSHOT = "0d9f7c1e-2b3a-4c5d-8e6f-7a8b9c0d1e2f"
SESSION = "3f2b8c6a-1d4e-4f5a-9b7c-8d9e0f1a2b3c"
RUN = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@contextmanager
def refused(status: int, code: str | None = None, request_id: str | None = None) -> Iterator[None]:
    """Let the block be refused so; a code or id that is not given does not matter."""
    try:
        yield
    except SandboxApiException as error:
        seen = (error.status_code, code and error.error.code, request_id and error.request_id)
        if seen != (status, code, request_id):
            raise AssertionError(f"refused otherwise: {seen}") from error
    else:
        raise AssertionError("was not refused")


async def snapshots(config: ConnectionConfig) -> None:
    """Keep a sandbox, find what was kept, make a sandbox of it, forget it."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    made = await sandbox.create_snapshot("before")
    assert (made.id, made.sandbox_id, made.name) == (SNAPSHOT, SANDBOX, "before")
    assert (made.status.state, made.status.reason) == ("Creating", "snapshot_accepted")
    await sandbox.close()
    async with await SandboxManager.create(config) as manager:
        unnamed = await manager.create_snapshot(SANDBOX)
        assert unnamed.name is None
        seen = await manager.get_snapshot(SNAPSHOT)
        assert seen.status.state == "Ready"
        assert seen.created_at.isoformat() == "2026-01-02T03:04:05+00:00"
        wanted = SnapshotFilter(
            sandbox_id=SANDBOX, name="before", states=["Ready", "Creating"], page=2, page_size=5
        )
        page = await manager.list_snapshots(wanted)
        assert [info.id for info in page.snapshot_infos] == [SNAPSHOT]
        assert (page.pagination.total_items, page.pagination.has_next_page) == (6, False)
        await manager.delete_snapshot(SNAPSHOT)


async def restore(config: ConnectionConfig) -> None:
    """Make a sandbox of a snapshot."""
    sandbox = await Sandbox.create(
        snapshot_id=SNAPSHOT, timeout=timedelta(minutes=5), connection_config=config
    )
    assert sandbox.id == SANDBOX
    await sandbox.close()


async def refusals(config: ConnectionConfig) -> None:
    """Get every refusal as an exception with its code and the request's id."""
    async with await SandboxManager.create(config) as manager:
        with refused(409, "SNAPSHOT::INVALID_SOURCE_STATE", request_id="request-1"):
            await manager.create_snapshot(SANDBOX, "x")
        with refused(409, "SNAPSHOT::DELETE_CONFLICT"):
            await manager.delete_snapshot(SNAPSHOT)
        with refused(404, "FSB::TEMPLATE_NOT_FOUND"):
            await manager.get_template("tpl_none")


async def templates(config: ConnectionConfig) -> None:
    """Make a template, find it, forget it."""
    async with await SandboxManager.create(config) as manager:
        request = CreateTemplateRequest(
            image="python:3.12",
            publish="registry.example.com/templates/python",
            resource_limits={"cpu": "2", "memory": "1Gi", "disk": "4Gi"},
            entrypoint=["python", "-m", "http.server"],
            env={"MODE": "fast"},
            metadata={"team": "agents"},
            readiness=TemplateReadiness(probe="true", warmup_seconds=3),
            format="overlaybd",
        )
        made = await manager.create_template(request)
        assert (made.template_id, made.status.phase) == ("tpl_1", "Pending")
        assert made.readiness is not None
        assert made.readiness.warmup_seconds == 3
        least = CreateTemplateRequest(image="a", publish="b")
        assert (await manager.create_template(least)).template_id == "tpl_2"
        seen = await manager.get_template("tpl_1")
        assert (seen.status.phase, seen.status.manifest_ref) == ("Succeeded", "sha256:0123")
        page = await manager.list_templates(
            TemplateFilter(metadata={"team": "agents"}, page=1, page_size=10)
        )
        assert [info.template_id for info in page.template_infos] == ["tpl_1"]
        await manager.delete_template("tpl_1")


async def create_from_template(config: ConnectionConfig) -> None:
    """Make a sandbox of a template; its policy is changed through the lifecycle API."""
    sandbox = await Sandbox.create_from_template(
        "tpl_1",
        timeout=timedelta(minutes=10),
        metadata={"team": "agents"},
        network_policy=NetworkPolicy(egress=[NetworkRule(action="allow", target="example.com")]),
        extensions={"note": "kept"},
        connection_config=config,
    )
    assert (sandbox.id, sandbox.origin) == ("fsb-1", "template")
    policy = await sandbox.get_egress_policy()
    assert policy.default_action == "deny"
    await sandbox.patch_egress_rules([NetworkRule(action="deny", target="example.com")])
    await sandbox.delete_egress_rules(["example.com"])
    await sandbox.close()


async def create_with_everything(config: ConnectionConfig) -> None:
    """Send every field of a request."""
    sandbox = await Sandbox.create(
        SandboxImageSpec(
            image="registry.example.com/app:1",
            auth=SandboxImageAuth(username="me", password="secret"),  # noqa: S106
        ),
        timeout=timedelta(hours=1),
        env={"A": "1"},
        metadata={"team": "agents"},
        resource={"cpu": "2", "memory": "4Gi", "gpu": "1"},
        resource_requests={"cpu": "500m", "memory": "1Gi"},
        platform=PlatformSpec(os="linux", arch="arm64"),
        network_policy=NetworkPolicy(
            default_action="deny",
            egress=[
                NetworkRule(action="allow", target="*.example.com"),
                NetworkRule(action="deny", target="10.0.0.0/8"),
            ],
        ),
        credential_proxy=CredentialProxyConfig(enabled=True),
        extensions={"access.renew.extend.seconds": "600"},
        secure_access=True,
        entrypoint=["sleep", "infinity"],
        volumes=[
            Volume(name="work", host=Host(path="/srv/work"), mount_path="/work", sub_path="a/b"),
            Volume(
                name="data",
                pvc=PVC(
                    claim_name="claim",
                    create_if_not_exists=False,
                    delete_on_sandbox_termination=True,
                    storage_class="fast",
                    storage="10Gi",
                    access_modes=["ReadWriteOnce"],
                ),
                mount_path="/data",
                read_only=True,
            ),
            Volume(
                name="bucket",
                ossfs=OSSFS(
                    bucket="my-bucket",
                    endpoint="oss.example.com",
                    version="1.0",
                    options=["allow_other"],
                    access_key_id="id",
                    access_key_secret="secret",  # noqa: S106
                ),
                mount_path="/bucket",
            ),
        ],
        lifecycle=SandboxLifecycle(
            pre_start=LifecycleHook(command=["sh", "-c", "true"], timeout_seconds=30),
            periodic=[PeriodicLifecycleHook(name="sync", schedule="*/5 * * * *", command=["sync"])],
        ),
        connection_config=config,
    )
    await sandbox.close()


async def egress(config: ConnectionConfig) -> None:
    """Read and change what may go out."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    policy = await sandbox.get_egress_policy()
    assert policy.default_action == "deny"
    rules = [(rule.action, rule.target) for rule in policy.egress or []]
    assert rules == [("allow", "pypi.org"), ("deny", "*.example.com")]
    await sandbox.patch_egress_rules(
        [
            NetworkRule(action="allow", target="example.org"),
            NetworkRule(action="deny", target="192.0.2.0/24"),
        ]
    )
    await sandbox.delete_egress_rules(["pypi.org", "example.org"])
    with refused(400):
        await sandbox.patch_egress_rules([NetworkRule(action="allow", target="http://a")])
    await sandbox.close()


async def credential_vault(config: ConnectionConfig) -> None:
    """Put secrets into the vault, change it, look at it, empty it."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    vault = sandbox.credential_vault
    state = await vault.create(
        credentials=[
            {"name": "token", "source": {"type": "inline", "value": "secret-1"}},
            {"name": "other", "source": {"type": "inline", "value": "secret-2"}},
        ],
        bindings=[
            {
                "name": "api",
                "match": {"hosts": ["api.example.com"], "methods": ["GET"], "paths": ["/v1/*"]},
                "auth": {"type": "bearer", "credential": "token"},
            },
            {
                "name": "all",
                "match": {"schemes": ["https"], "hosts": ["*.example.org"]},
                "auth": {
                    "type": "customHeaders",
                    "headers": [{"name": "X-Key", "credential": "other"}],
                    "substitutions": [
                        {"credential": "other", "placeholder": "{{key}}", "in": ["query", "body"]}
                    ],
                },
            },
        ],
    )
    assert state.revision == 1
    assert [item.name for item in state.credentials] == ["other", "token"]
    assert state.bindings[1].match is not None
    assert state.bindings[1].match.hosts == ["api.example.com"]
    assert (await vault.get()).revision == 1
    changed = await vault.patch(
        expected_revision=1,
        credentials={
            "replace": [{"name": "token", "source": {"type": "inline", "value": "secret-3"}}]
        },
        bindings={"delete": ["all"]},
    )
    assert changed.revision == 2
    names = [item.name for item in await vault.list_credentials()]
    assert names == ["other", "token"]
    credential = await vault.get_credential("token")
    assert (credential.source_type, credential.revision) == ("inline", 2)
    bindings = await vault.list_bindings()
    assert [item.name for item in bindings] == ["api"]
    binding = await vault.get_binding("api")
    assert binding.auth is not None
    assert binding.auth.type == "bearer"
    await vault.delete()
    with refused(404):
        await vault.get()
    await sandbox.close()


async def diagnostics(config: ConnectionConfig) -> None:
    """Ask for logs and events of a sandbox."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    logs = await sandbox.diagnostics.get_logs(SANDBOX, "container")
    assert (logs.kind, logs.delivery, logs.content) == ("logs", "inline", "hello\n")
    events = await sandbox.get_diagnostic_events("runtime")
    assert (events.delivery, events.truncated) == ("url", True)
    assert events.content_url == "https://logs.example.com/1"
    assert events.warnings == ["older events are gone"]
    await sandbox.close()
    async with await SandboxManager.create(config) as manager:
        with refused(400, "DIAGNOSTICS_SCOPE_UNSUPPORTED"):
            await manager.get_diagnostic_logs(SANDBOX, "kernel")


async def isolation(config: ConnectionConfig) -> None:
    """Run inside an isolated session, in the foreground and in the background."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    able = await sandbox.isolation.capabilities()
    assert (able.available, able.isolator) == (True, "bubblewrap")
    assert able.hardening is not None
    assert able.hardening.seccomp is not None
    assert able.hardening.seccomp.state == "active"
    session = await sandbox.isolation.create(
        CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path="/workspace", mode="overlay"),
            overlays=[IsolatedOverlaySpec(path="/opt", mode="rw", persist=True)],
            profile="strict",
            extra_writable=["/tmp"],
            binds=[BindMount(source="/srv", dest="/mnt", readonly=True)],
            share_net=False,
            env_passthrough=EnvPassthroughSpec(mode="allow", keys=["PATH"]),
            uid=1000,
            gid=1000,
            uid_mode="setpriv",
            idle_timeout_seconds=600,
        )
    )
    assert session.session_id == SESSION
    done = await session.run("echo hi", opts=IsolatedRunOpts(envs={"A": "1"}, timeout_seconds=5))
    assert (done.text, done.exit_code) == ("hi", 0)
    failed = await session.run("exit 3")
    assert failed.exit_code == 3
    assert failed.error is not None
    assert failed.error.name == "ExitError"
    job = await session.run_background("sleep 1; echo late")
    assert (job.run_id, job.session_id) == (RUN, SESSION)
    status = await session.run_status(RUN)
    assert (status.running, status.exit_code) == (False, 0)
    logs = await session.run_logs(RUN)
    assert (logs.text, logs.cursor) == ("late\n", 5)
    assert (await session.run_logs(RUN, 5)).text == ""
    assert await session.files.read_file("/workspace/a.txt") == "content"
    state = await session.get()
    assert (state.status, state.idle_remaining_seconds) == ("active", 590)
    listed = await sandbox.isolation.list()
    assert [item.session_id for item in listed] == [SESSION]
    again = await sandbox.isolation.attach(SESSION)
    assert (again.session_id, again.info.profile) == (SESSION, "strict")
    await again.delete()
    await sandbox.close()


async def isolation_once(config: ConnectionConfig) -> None:
    """Run once, or in a session that ends with its block; refusals have their code."""
    sandbox = await Sandbox.connect(SANDBOX, config)
    done = await sandbox.isolation.run_once(
        "echo hi", workspace="/workspace", workspace_mode="ro", profile="balanced", share_net=True
    )
    assert done.text == "hi"
    request = CreateIsolatedSessionRequest(workspace=IsolatedWorkspaceSpec(path="/workspace"))
    async with sandbox.isolation.session(request) as session:
        assert (await session.run("echo hi")).text == "hi"
    with refused(503, "SERVICE_UNAVAILABLE"):
        await sandbox.isolation.create(request)
    await sandbox.close()
