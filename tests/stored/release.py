# SPDX-License-Identifier: Apache-2.0
"""What a release stored, laid out again as a data directory."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RELEASES = Path(__file__).parent
DATA_DIR = "@DATA_DIR@"
"""Stands for the path of the data directory."""
STORE = "opensandbox.db"


@dataclass(frozen=True, slots=True)
class Release:
    """The stored forms of one release."""

    directory: Path

    @property
    def expected(self) -> dict[str, dict[str, Any]]:
        """What must be told of each sandbox, by id."""
        told: dict[str, dict[str, Any]] = json.loads((self.directory / "expected.json").read_text())
        return told

    def lay_out(self, data: Path) -> None:
        """Make a data directory of it, as the release left it."""
        data.mkdir(mode=0o700, parents=True)
        kept = self.directory / "data"
        for file in (file for file in kept.rglob("*") if file.is_file()):
            place = data / file.relative_to(kept)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.read_text().replace(DATA_DIR, str(data)))
            place.chmod(0o600)
        db = sqlite3.connect(data / STORE)
        db.executescript((self.directory / "store.sql").read_text().replace(DATA_DIR, str(data)))
        db.close()


def releases() -> list[Release]:
    """Return every release there is, oldest first."""
    return [Release(path) for path in sorted(RELEASES.glob("v*"))]
