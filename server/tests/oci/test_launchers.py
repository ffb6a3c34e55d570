# SPDX-License-Identifier: Apache-2.0
"""A whole server on a host that has runc only, and on one that has no OCI runtime at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.launcher.program import SEARCH_PATH
from server.tests.world import create_request
from tests.harness.runtime import missing
from tests.harness.server import NotServing, serving

HIDE = """
nothing=$1; shift
until [ "$1" = -- ]; do mount --bind "$nothing" "$1"; shift; done
shift
exec "$@"
"""


@pytest.fixture(autouse=True)
def _fit() -> None:
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")


def hidden(tmp_path: Path, *names: str) -> list[str]:
    """Return the words of a command that hides programs from whom it starts."""
    nothing = tmp_path / "nothing"
    nothing.touch(mode=0o600)
    places = [
        str(place.resolve())
        for name in names
        for directory in SEARCH_PATH.split(":")
        if (place := Path(directory) / name).exists()
    ]
    unique = sorted(set(places))
    return ["unshare", "--mount", "sh", "-euc", HIDE, "sh", str(nothing), *unique, "--"]


def test_where_there_is_no_crun_sandboxes_are_started_by_runc(tmp_path: Path) -> None:
    if not shutil.which("runc", path=SEARCH_PATH):
        pytest.skip("runc is not installed; apt-get install runc")
    flags = ("--runtime", "oci", "--stop-sandboxes")
    around = hidden(tmp_path, "crun")
    with serving(tmp_path / "data", *flags, around=around) as server, server.client() as client:
        asked = {"image": {"uri": "host"}, "extensions": {"runtime": "crun"}}
        assert "runc" in client.post("/sandboxes", json=create_request(**asked)).json()["message"]
        asked["extensions"] = {"runtime": "runc", "network": "none"}
        created = client.post("/sandboxes", json=create_request(**asked))
        assert created.status_code == 202, created.text
        path = f"/sandboxes/{created.json()['id']}/proxy/44772/command"
        ran = client.post(
            path, json={"command": "echo alive; cat /proc/1/status; ls /sys/class/net"}
        )
        assert "alive" in ran.text
        assert "Seccomp:\\t2" in ran.text
        assert '"text":"lo"' in ran.text
        assert '"text":"eth0"' not in ran.text


def test_without_any_oci_runtime_the_start_is_one_clear_error(tmp_path: Path) -> None:
    around = hidden(tmp_path, "crun", "runc")
    with pytest.raises(NotServing) as refusal:
        serving(tmp_path / "data", "--runtime", "oci", key=None, around=around).__enter__()
    said = str(refusal.value)
    assert said.count("\n") == 1, said
    assert "crun is not installed; apt-get install crun" in said
    assert not (tmp_path / "data" / "api_key").exists()
