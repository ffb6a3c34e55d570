# SPDX-License-Identifier: Apache-2.0
"""What execd is given of its token: a hash, by which it knows the token and cannot tell it."""

from __future__ import annotations

import hashlib


def token_sha256(token: str) -> str:
    """Return the hash of a token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_flags(sha256: str) -> list[str]:
    """Return the flags of execd for that hash; whoever reads them has nothing."""
    return ["--access-token-sha256", sha256]
