# SPDX-License-Identifier: Apache-2.0
"""What a server does with what it finds: every combination of wanted and seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from opensandbox_server.runtimes.base import ExecdAddress, Instance, InstanceState, SandboxSpec
from opensandbox_server.sandboxes.reconcile import Action, Adopt, End, Leave, MarkLost, plan
from opensandbox_server.store.stored import StoredSandbox

NOW = datetime.now(UTC)
WANTED = StoredSandbox(SandboxSpec("s", "i", ("x",)), created_at=NOW, has_answered=True)
UNANSWERED = replace(WANTED, has_answered=False)
REPEATABLE = replace(UNANSWERED, is_repeatable=True)
EXPIRED = replace(WANTED, expires_at=NOW - timedelta(seconds=1))
SEEN = Instance("s", InstanceState.RUNNING, ExecdAddress(tcp="h:1"), NOW)


@pytest.mark.parametrize(
    ("stored", "seen", "kind"),
    [
        (WANTED, SEEN, Adopt),
        (WANTED, replace(SEEN, state=InstanceState.PAUSED), Adopt),
        (WANTED, replace(SEEN, state=InstanceState.EXITED), Adopt),
        (replace(WANTED, expires_at=NOW + timedelta(seconds=1)), SEEN, Adopt),
        (WANTED, None, MarkLost),
        (EXPIRED, SEEN, End),
        (EXPIRED, None, End),
        (UNANSWERED, SEEN, End),
        (UNANSWERED, None, End),
        (REPEATABLE, SEEN, Adopt),
        (REPEATABLE, None, End),
        (None, SEEN, Leave),
    ],
)
def test_every_combination_has_its_action(
    stored: StoredSandbox | None, seen: Instance | None, kind: type[Action]
) -> None:
    actions = plan([stored] if stored else [], [seen] if seen else [], NOW)
    assert [type(action) for action in actions] == [kind]


def test_each_sandbox_gets_one_action() -> None:
    stored = [replace(WANTED, spec=replace(WANTED.spec, id=name)) for name in "abc"]
    seen = [replace(SEEN, id=name) for name in "bcd"]
    actions = plan(stored, seen, NOW)
    assert [type(action) for action in actions] == [MarkLost, Adopt, Adopt, Leave]
