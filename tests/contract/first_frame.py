# SPDX-License-Identifier: Apache-2.0
"""Ends a watch, which goes on for ever by itself, after its first frame."""

from typing import Any

import requests


class FirstFrameSession(requests.Session):
    """A session for which the stream of a watch is over once a frame has come."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request as ever, but hand out less of a watch."""
        response = super().request(*args, **kwargs)
        if response.url.partition("?")[0].endswith("/watch"):
            response.raw = _UpToFrame(response.raw)
        return response


class _UpToFrame:
    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._is_over = False

    def read1(self, *args: Any, **kwargs: Any) -> bytes:
        if self._is_over:
            return b""
        piece: bytes = self._raw.read1(*args, **kwargs)
        self._is_over = piece.endswith(b"\n")
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)
