# SPDX-License-Identifier: Apache-2.0
"""Local files that appear whole, or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def drafting(target: Path) -> Iterator[IO[bytes]]:
    """Write a file that gets its name when the block ends well and is removed otherwise.

    What is there and is no file, such as a device or a pipe, is written to and never replaced.
    """
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.part")
    try:
        with draft.open("xb") as file:
            yield file
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
