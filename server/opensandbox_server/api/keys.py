# SPDX-License-Identifier: Apache-2.0
"""API keys: who may use the server. Only their sums are kept in memory and sent to ingress."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from opensandbox_server.host.data_dir import DataDir, read_or_make_secret
from opensandbox_server.sandboxes.principal import Principal
from opensandbox_server.settings.settings import Settings

log = logging.getLogger(__name__)

_KEY_NOTICE = """\
A new API key was made. It is shown only now:

    {key}

Clients take it from OPEN_SANDBOX_API_KEY. The server keeps it in {path}."""


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The SHA-256 sums of all keys, in hex. No keys let nobody in, unless the server is open."""

    sums: tuple[str, ...] = ()
    is_open: bool = False
    """True when no key is needed: everybody may do everything."""

    @classmethod
    def of(cls, keys: Iterable[str]) -> ApiKeys:
        """Sum up keys."""
        return cls(tuple(_sum(key) for key in keys))

    def principal_of(self, key: str) -> Principal | None:
        """Return who has the key: compared with every one, in a time that tells nothing."""
        given = _sum(key)
        is_known = sum(hmac.compare_digest(given, known) for known in self.sums) > 0
        return Principal() if is_known else None


def _sum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@contextlib.contextmanager
def open_api_keys(
    settings: Settings, data: DataDir
) -> Iterator[tuple[ApiKeys, Callable[[], None]]]:
    """Yield the keys, and what greets the operator once the server listens.

    A key that was made for a start that failed is thrown away: nobody has seen it.
    """
    if settings.server.api_key or settings.is_insecure:
        key = settings.server.api_key
        keys = ApiKeys.of([key]) if key else ApiKeys(is_open=True)
        warning = "no API key is needed: whoever reaches the port may do everything"
        yield keys, (lambda: log.warning(warning)) if keys.is_open else (lambda: None)
        return
    key, is_new = read_or_make_secret(data.api_key)
    unseen = is_new

    def show() -> None:
        nonlocal unseen
        if unseen:
            print(_KEY_NOTICE.format(key=key, path=data.api_key), flush=True)
        unseen = False

    try:
        yield ApiKeys.of([key]), show
    finally:
        if unseen:
            data.api_key.unlink(missing_ok=True)
