# SPDX-License-Identifier: Apache-2.0
"""Who asks. Every verb for clients takes one, so that none forgets whose sandboxes these are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has proved who they are. They see what is theirs; the rest is not there."""

    owner: str = ""
    """Whose sandboxes they make and use; a server that has one owner calls it nothing."""
