# SPDX-License-Identifier: Apache-2.0
"""What lies among the sandboxes and is not understood: it is left as it is, running if it runs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from opensandbox_server.runtimes.oci.protocol import Description


@dataclass(frozen=True, slots=True)
class SetAside:
    """One directory, or something else, that this version of the launcher cannot read."""

    directory: Path
    why: str
    is_sandbox: bool
    """True when it may have an owner, who is told of it."""
    since: float

    @property
    def owner(self) -> int:
        """The id its files belong to: nobody else may get that range of ids, while it may run."""
        with contextlib.suppress(OSError):
            return (self.directory / "upper").stat().st_uid
        return -1

    def describe(self) -> Description:
        """Return what the server is told of it: nothing can be done with it but to end it."""
        reason = f"it was set aside: {self.why}"
        return Description(self.directory.name, "exited", "", self.since, reason=reason)
