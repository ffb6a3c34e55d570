# SPDX-License-Identifier: Apache-2.0
"""Signed routes: who knows one may use it until it expires, without any other proof."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode, b64decode
from dataclasses import dataclass, field

from opensandbox_server.host.data_dir import DataDir, read_or_make_secret
from opensandbox_server.settings.settings import Settings

MADE_KEY_ID = "0"
"""Id of the signing key that the server makes by itself."""
LAST_EXPIRES = 36**13 - 1
FIRST_EXPIRES = 36**5
"""Routes name the second in 6 to 13 digits of base 36."""


@dataclass(frozen=True, slots=True)
class Signer:
    """The key that signs routes."""

    key_id: str
    key: bytes = field(repr=False)

    def sign(self, sandbox_id: str, port: int, expires: int) -> tuple[str, str]:
        """Return the expiry in base 36 and the signature: a whole HMAC-SHA256 and the key's id."""
        expires36 = to_base36(expires)
        text = f"v1\nfull\n{sandbox_id}\n{port}\n{expires36}\n".encode()
        digest = hmac.digest(self.key, text, hashlib.sha256)
        return expires36, b32encode(digest).decode().rstrip("=").lower() + self.key_id


def signing_keys(settings: Settings, data: DataDir) -> list[Signer]:
    """Return every key that verifies signed routes; the first one signs."""
    access = settings.ingress.secure_access
    if not access.keys:
        secret, _ = read_or_make_secret(data.signing_key)
        return [Signer(MADE_KEY_ID, secret.encode())]
    active = access.active_key or access.keys[0].key_id
    found = [Signer(entry.key_id, b64decode(entry.key)) for entry in access.keys]
    return sorted(found, key=lambda signer: signer.key_id != active)


def to_base36(number: int) -> str:
    """Write a number with the digits 0-9a-z."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
