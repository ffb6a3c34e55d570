# SPDX-License-Identifier: Apache-2.0
"""Installed Python distributions: one with all it needs, and the files worth taking."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_DESCRIPTION = {"METADATA", "entry_points.txt", "top_level.txt"}
"""What is taken of a dist-info; the rest tells where and by whom it was installed."""
_LEFT_OUT = ("jedi/third_party/django-stubs/", "jedi/third_party/typeshed/stubs/")
"""Thousands of files that complete the names of packages that are not there."""


class NotInstalled(Exception):
    """A distribution is missing, or the installer kept no list of its files."""


def with_requirements(name: str) -> list[Distribution]:
    """Return a distribution and all it needs here, by name. Raises NotInstalled."""
    found: dict[str, Distribution] = {}
    wanted = [name]
    while wanted:
        key = canonicalize_name(wanted.pop())
        if key in found:
            continue
        try:
            found[key] = distribution(key)
        except PackageNotFoundError:
            raise NotInstalled(f"the Python package {key} is not installed") from None
        wanted += _required(found[key])
    return [found[key] for key in sorted(found)]


def fingerprint(one: Distribution) -> str:
    """Return what changes when a file of the distribution does: its record has their sums."""
    record = one.read_text("RECORD")
    if record is None:
        name = one.metadata["Name"]
        raise NotInstalled(f"the Python package {name} has no list of its files, as pip writes it")
    return hashlib.sha256(record.encode()).hexdigest()


def files_of(one: Distribution) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yield the files worth taking: the place below site-packages, and where each is now."""
    for file in one.files or ():
        if _is_taken(file):
            yield PurePosixPath(file), Path(str(one.locate_file(file)))


def _required(one: Distribution) -> list[str]:
    needs = (Requirement(text) for text in one.requires or ())
    return [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]


def _is_taken(file: PurePosixPath) -> bool:
    if ".." in file.parts or file.is_absolute() or str(file).startswith(_LEFT_OUT):
        return False
    if file.parts[0].endswith(".dist-info"):
        return file.name in _DESCRIPTION or "licenses" in file.parts
    return "__pycache__" not in file.parts and "tests" not in file.parts
