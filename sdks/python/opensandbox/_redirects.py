# SPDX-License-Identifier: Apache-2.0
"""Keeps secrets from strangers when a redirect leads elsewhere."""

import httpx

_HOME = "opensandbox_home"
_KEPT = frozenset({"accept", "accept-encoding", "content-length", "content-type", "host", "range"})


def home_extension(url: httpx.URL) -> dict[str, str]:
    """Return the request extension that remembers where a request was meant to go."""
    return {_HOME: _origin(url)}


def strip_for_strangers(request: httpx.Request) -> None:
    """Take every header but the harmless ones off a request that was redirected elsewhere."""
    home = request.extensions.get(_HOME)
    if home is None or home == _origin(request.url):
        return
    for name in list(request.headers.keys()):
        if name.lower() not in _KEPT and name.lower() not in ("transfer-encoding", "user-agent"):
            del request.headers[name]


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
