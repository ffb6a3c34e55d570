# SPDX-License-Identifier: Apache-2.0
"""What the shell completes by asking the server: the ids of sandboxes."""

from __future__ import annotations

import os
from datetime import timedelta

import click
from click.shell_completion import CompletionItem

TIMEOUT = timedelta(seconds=2)  # nobody waits longer for a completion
MOST = 100


def sandbox_ids(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return living sandboxes whose ids begin so; none when the server does not say."""
    from opensandbox import SandboxManagerSync
    from opensandbox.config import ConnectionConfigSync
    from opensandbox.exceptions import SandboxException
    from opensandbox.models.sandboxes import SandboxFilter
    from opensandbox.transport import RetryPolicy
    from opensandbox_cli.failures import CommandFault
    from opensandbox_cli.main import settings_of

    try:
        settings = settings_of(ctx, os.environ)
        config = ConnectionConfigSync(
            api_key=settings.get("connection.api_key"),
            domain=settings.get("connection.domain"),
            protocol=settings.get("connection.protocol") or "http",
            request_timeout=TIMEOUT,
            retry_policy=RetryPolicy.disabled(),
        )
        with SandboxManagerSync.create(config) as manager:
            page = manager.list_sandbox_infos(SandboxFilter(page_size=MOST))
    except (SandboxException, CommandFault):
        return []  # there is no place for a message here
    return [
        CompletionItem(
            info.id, help=f"{info.status.state} {info.image.image if info.image else ''}"
        )
        for info in page.sandbox_infos
        if info.id.startswith(incomplete)
    ]
