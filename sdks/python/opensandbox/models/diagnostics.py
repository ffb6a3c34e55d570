# SPDX-License-Identifier: Apache-2.0
"""What helps to understand a sandbox that misbehaves."""

from datetime import datetime
from typing import Literal

from opensandbox.models.wire import WireModel


class DiagnosticContent(WireModel):
    """Logs or events of one scope: inline, or at a URL for a while."""

    sandbox_id: str
    kind: Literal["logs", "events"]
    scope: str
    delivery: Literal["inline", "url"]
    content_type: str
    truncated: bool
    content: str | None = None
    content_url: str | None = None
    content_length: int | None = None
    expires_at: datetime | None = None
    warnings: list[str] | None = None
