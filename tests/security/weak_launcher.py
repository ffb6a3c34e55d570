# SPDX-License-Identifier: Apache-2.0
"""A launcher that leaves protections out, so that security tests see their attacks succeed.

It takes what the product makes of a start and removes something from it: the product itself has no
switch for that. A sandbox that shall be weaker says so in its environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from opensandbox_server.runtimes.oci.launcher import bundle
from opensandbox_server.runtimes.oci.launcher.__main__ import main
from opensandbox_server.runtimes.oci.protocol import Start

_VARIABLE = "TEST_WITHOUT"
_DANGEROUS = [*bundle.CAPABILITIES, "CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW"]


def asked_for(without: tuple[str, ...]) -> Mapping[str, str]:
    """Return the environment of a sandbox that has none of these protections."""
    assert set(without) <= _REMOVERS.keys()
    return {_VARIABLE: ",".join(without)} if without else {}


def weakened(start: Start, around: bundle.Surroundings) -> dict[str, Any]:
    """Return the config of a bundle without what its environment names."""
    without = start.spec.env.get(_VARIABLE, "").split(",")
    kept = {name: value for name, value in start.spec.env.items() if name != _VARIABLE}
    config = bundle.config(replace(start, spec=replace(start.spec, env=kept)), around)
    for name in filter(None, without):
        _REMOVERS[name](config)
    return config


def _allow_capabilities(config: dict[str, Any]) -> None:
    kinds = ("bounding", "effective", "permitted")
    config["process"]["capabilities"] = dict.fromkeys(kinds, _DANGEROUS)


def _allow_new_privileges(config: dict[str, Any]) -> None:
    config["process"]["noNewPrivileges"] = False


def _remove_seccomp(config: dict[str, Any]) -> None:
    config.pop("annotations", None)
    config["linux"].pop("seccomp", None)


def _show_paths(config: dict[str, Any]) -> None:
    del config["linux"]["maskedPaths"], config["linux"]["readonlyPaths"]
    (sys,) = [mount for mount in config["mounts"] if mount["destination"] == "/sys"]
    sys["options"].remove("ro")


def _let_trace(config: dict[str, Any]) -> None:
    config["process"]["args"].insert(1, "--traceable")


_REMOVERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "capabilities": _allow_capabilities,
    "no_new_privileges": _allow_new_privileges,
    "seccomp": _remove_seccomp,
    "paths": _show_paths,
    "untraceable": _let_trace,
}


if __name__ == "__main__":
    main(weakened)
