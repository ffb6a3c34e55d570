# SPDX-License-Identifier: Apache-2.0
"""Reads files for a model: text at a bounded size, and pictures as pictures."""

import codecs
import re

from opensandbox.exceptions import InvalidArgumentException
from opensandbox_mcp.results import FileContent

# What the first bytes of a picture say. The four kinds that models take.
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)
_SIMPLE_RANGE = re.compile(r"bytes=(\d+)-")


def image_type(content: bytes) -> str | None:
    """Return the media type of a picture, or None when it is not one."""
    return next((kind for signature, kind in _SIGNATURES if signature.match(content)), None)


def text_of(
    path: str, content: bytes, encoding: str, *, range_header: str | None, has_more: bool
) -> FileContent:
    """Return the beginning of a file as text, with a note on where to read on if there is more."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        text = decoder.decode(content, final=not has_more)
    except LookupError as cause:
        raise InvalidArgumentException(f"there is no encoding {encoding}", cause) from cause
    except UnicodeError as cause:
        raise InvalidArgumentException(_not_text(path, content, encoding), cause) from cause
    unfinished, _ = decoder.getstate()
    note = _read_on(range_header, len(content) - len(unfinished)) if has_more else None
    return FileContent(path=path, content=text, note=note)


def _not_text(path: str, content: bytes, encoding: str) -> str:
    if image_type(content):
        return f"{path} is a picture; see it with file_read_image."
    return f"{path} is not {encoding} text; get its bytes with file_download."


def _read_on(range_header: str | None, shown: int) -> str:
    start = 0
    if range_header is not None:
        simple = _SIMPLE_RANGE.match(range_header)
        if simple is None:
            return f"Only the first {shown} bytes of the range are shown; ask for a smaller one."
        start = int(simple[1])
    return f'The file goes on; read on with range_header="bytes={start + shown}-".'
