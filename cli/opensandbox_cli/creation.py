# SPDX-License-Identifier: Apache-2.0
"""The flags that say what a new sandbox shall be, and the sandbox that comes of them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opensandbox_cli import progress
from opensandbox_cli.arguments import DURATION, LIFETIME, PAIR, Pairs
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation

if TYPE_CHECKING:
    from pydantic import BaseModel

    from opensandbox import Sandbox

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="BaseModel")
Flags = dict[str, Any]

NOT_FOUND = 404

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("-i", "--image", help="The image to make it from."),
    click.option("--image-auth-username", help="Login of a private registry."),
    click.option("--image-auth-password", help="Its password."),
    click.option("--template", help="Make it from a template."),
    click.option("--snapshot-id", help="Make it from a snapshot."),
    click.option("-f", "--file", type=_FILE, help="A request as JSON; flags win over it."),
    click.option(
        "-t", "--timeout", type=LIFETIME, help="When it ends: 10m (the default), 1h30m, none."
    ),
    click.option("-e", "--env", type=PAIR, multiple=True, help="A variable; repeatable."),
    click.option("-m", "--metadata", type=PAIR, multiple=True, help="A label; repeatable."),
    click.option("--extension", type=PAIR, multiple=True, help="For the runtime; repeatable."),
    click.option("--resource", type=PAIR, multiple=True, help="cpu=500m, memory=1Gi; repeatable."),
    click.option("--entrypoint", multiple=True, help="One word of its program; repeatable."),
    click.option("--network-policy-file", type=_FILE, help="What may go out, as JSON."),
    click.option("--credential-proxy", is_flag=True, help="Let requests pass the vault."),
    click.option("--volumes-file", type=_FILE, help="A list of volumes, as JSON."),
    click.option("--skip-health-check", is_flag=True, help="Do not wait until it answers."),
    click.option("--ready-timeout", type=DURATION, help="How long to wait for it; 30s."),
]


def creation_options(function: F) -> F:
    """Add every flag of ``sandbox create``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


async def create(invocation: Invocation, flags: Flags) -> Sandbox:
    """Make a sandbox as the flags, the file and the defaults say."""
    from opensandbox import Sandbox

    arguments = _arguments(invocation, flags)
    template = arguments.pop("template_id", None)
    async with progress.doing("making a sandbox"):
        if template is not None:
            return await Sandbox.create_from_template(template, **arguments)
        return await Sandbox.create(arguments.pop("image", None), **arguments)


@asynccontextmanager
async def temporary(
    invocation: Invocation, flags: Flags, *, is_kept: bool = False
) -> AsyncIterator[Sandbox]:
    """Make a sandbox and end it when the block ends, also when a signal ends the block.

    One that ``is_kept`` outlives a block that ends well.
    """
    making = asyncio.ensure_future(create(invocation, flags))
    try:
        sandbox = await asyncio.shield(making)
    except asyncio.CancelledError:
        # It may exist already, and only the answer says its id. A second signal does not wait.
        await _end(await making)
        raise
    try:
        yield sandbox
    except BaseException:
        await _end(sandbox)
        raise
    await (sandbox.close() if is_kept else _end(sandbox))


async def _end(sandbox: Sandbox) -> None:
    from opensandbox.exceptions import SandboxApiException

    async with progress.doing("ending the sandbox"):
        try:
            await sandbox.destroy()
        except SandboxApiException as error:
            if error.status_code != NOT_FOUND:  # it has reached its end already
                raise


def _arguments(invocation: Invocation, flags: Flags) -> Flags:
    arguments = _from_file(flags["file"]) if flags["file"] else {}
    arguments |= _from_flags(flags)
    settings = invocation.settings
    sources = {"image", "snapshot_id", "template_id"}
    if not sources & arguments.keys() and not _names_pool(arguments):
        arguments["image"] = _image(settings.get("defaults.image"), flags)
    if "timeout" not in arguments and (default := settings.get("defaults.timeout")):
        arguments["timeout"] = LIFETIME.convert(default, None, None)
    if arguments.get("timeout") == "none":
        arguments["timeout"] = None
    return arguments | {"connection_config": invocation.config()}


def _names_pool(arguments: Flags) -> bool:
    return bool((arguments.get("extensions") or {}).get("poolRef"))


def _from_flags(flags: Flags) -> Flags:
    from opensandbox.models.sandboxes import CredentialProxyConfig, NetworkPolicy

    policy, volumes = flags["network_policy_file"], flags["volumes_file"]
    found: Flags = {
        "image": _image(flags["image"], flags) if flags["image"] else None,
        "template_id": flags["template"],
        "snapshot_id": flags["snapshot_id"],
        "timeout": flags["timeout"],
        "env": _mapping(flags["env"]),
        "metadata": _mapping(flags["metadata"]),
        "extensions": _mapping(flags["extension"]),
        "resource": _mapping(flags["resource"]),
        "entrypoint": list(flags["entrypoint"]) or None,
        "network_policy": checked_model(NetworkPolicy, read_json(policy), str(policy))
        if policy
        else None,
        "credential_proxy": CredentialProxyConfig(enabled=True)
        if flags["credential_proxy"]
        else None,
        "volumes": _volumes(volumes) if volumes else None,
        "skip_health_check": flags["skip_health_check"] or None,
        "ready_timeout": flags["ready_timeout"],
    }
    return {name: value for name, value in found.items() if value is not None}


def _mapping(pairs: Pairs) -> dict[str, str] | None:
    return dict(pairs) or None


def _image(name: str | None, flags: Flags) -> Any:
    from opensandbox.models.sandboxes import SandboxImageAuth, SandboxImageSpec

    if not name:
        advice = "name one with --image, or set it with: osb config set defaults.image host"
        raise CommandFault(f"no image; {advice}", ExitCode.USAGE)
    username, password = flags["image_auth_username"], flags["image_auth_password"]
    if bool(username) != bool(password):
        message = "--image-auth-username and --image-auth-password go together"
        raise CommandFault(message, ExitCode.USAGE)
    auth = SandboxImageAuth(username=username, password=password) if username else None
    return SandboxImageSpec(name, auth=auth)


def _from_file(path: Path) -> Flags:
    from opensandbox.models.sandboxes import CreateSandboxRequest

    content = read_json(path)
    if not isinstance(content, dict):
        raise CommandFault(f"{path} must hold a JSON object", ExitCode.USAGE)
    # What flags may still add is not missed in the file.
    asked = CreateSandboxRequest.model_construct(**_checked_fields(path, content))
    arguments = {name: getattr(asked, name) for name in asked.model_fields_set}
    if "resource_limits" in arguments:
        arguments["resource"] = arguments.pop("resource_limits")
    if "timeout" in arguments:
        seconds = arguments["timeout"]
        arguments["timeout"] = "none" if seconds is None else timedelta(seconds=seconds)
    return arguments


def _checked_fields(path: Path, content: Flags) -> Flags:
    from pydantic import TypeAdapter, ValidationError

    from opensandbox.models.sandboxes import CreateSandboxRequest

    by_alias = {
        field.alias or name: (name, field)
        for name, field in CreateSandboxRequest.model_fields.items()
    }
    fields: Flags = {}
    for alias, value in content.items():
        if alias not in by_alias:
            known = ", ".join(sorted(by_alias))
            raise CommandFault(f"{path}: no field {alias!r}; there are: {known}", ExitCode.USAGE)
        name, field = by_alias[alias]
        try:
            shape: TypeAdapter[Any] = TypeAdapter(field.annotation or Any)
            fields[name] = shape.validate_python(value)
        except ValidationError as error:
            raise _refused(f"{path}: {alias}", error) from error
    return fields


def _volumes(path: Path) -> list[Any]:
    from pydantic import TypeAdapter, ValidationError

    from opensandbox.models.sandboxes import Volume

    try:
        return TypeAdapter(list[Volume]).validate_python(read_json(path))
    except ValidationError as error:
        raise _refused(str(path), error) from error


def read_json(path: Path) -> Any:
    """Read a file, or standard input for ``-``, as JSON."""
    try:
        return json.loads(sys.stdin.read() if str(path) == "-" else path.read_text())
    except ValueError as error:
        raise CommandFault(f"{path} is not JSON: {error}", ExitCode.USAGE) from error


def _refused(where: str, error: Any) -> CommandFault:
    first = error.errors()[0]
    inner = ".".join(map(str, first["loc"]))
    return CommandFault(f"{where}{f'.{inner}' if inner else ''}: {first['msg']}", ExitCode.USAGE)


def checked_model(kind: type[M], content: object, where: str) -> M:
    """Read values as a model of the client."""
    from pydantic import ValidationError

    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _refused(where, error) from error
