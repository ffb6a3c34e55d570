# SPDX-License-Identifier: Apache-2.0
"""`images pull` against a real registry, and a sandbox from what was pulled."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.images.fetch import explain_pull, is_on_this_machine
from tests.images.conftest import LOGIN, Images, opened

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only"),
    pytest.mark.skipif(
        not shutil.which("skopeo"), reason="skopeo is not installed; apt-get install skopeo"
    ),
]


def test_a_sandbox_runs_from_an_image_of_a_registry(
    data_dir: Path, images: Images, registry: str
) -> None:
    name = f"{registry}/team/tiny:1"
    pulled = images("pull", name)
    assert (pulled.returncode, pulled.stderr) == (0, "")
    assert pulled.stdout.startswith(f"{name} is here")
    assert name in images("list").stdout
    with opened(data_dir) as home:
        box = home.start(name)
        assert box.sh("cat /etc/said").output == "from the registry"
        assert box.sh("echo $COLOUR $PWD; id -u").output.split() == ["green", "/etc", "7"]
        assert box.sh("ls /etc/hidden").status != 0


def test_a_password_is_read_from_standard_input(
    data_dir: Path, images: Images, closed_registry: str
) -> None:
    name = f"{closed_registry}/team/tiny:1"
    user, _, password = LOGIN.partition(":")
    pulled = images("pull", "--username", user, name, typed=f"{password}\n")
    assert (pulled.returncode, pulled.stderr) == (0, "")
    with opened(data_dir) as home:
        assert home.start(name).sh("cat /etc/said").output == "from the registry"


def refusal(images: Images, data_dir: Path, *words: str, typed: str = "") -> str:
    """Pull what cannot be pulled; return the one line it says, having seen that nothing is left."""
    refused = images("pull", *words, typed=typed)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1, refused.stderr
    store = data_dir / "images"
    assert not store.exists() or list(store.iterdir()) == []
    return refused.stderr


@pytest.mark.parametrize("name", ["team/tiny:2", "team/nobody:1"])
def test_a_wrong_name_or_tag_is_told(
    images: Images, data_dir: Path, registry: str, name: str
) -> None:
    said = refusal(images, data_dir, f"{registry}/{name}")
    assert f"cannot pull {registry}/{name}: the registry has no such image" in said


def test_a_needed_login_is_told_with_the_command(
    images: Images, data_dir: Path, closed_registry: str
) -> None:
    name = f"{closed_registry}/team/tiny:1"
    assert f"images pull --username NAME {name}" in refusal(images, data_dir, name)
    wrong = refusal(images, data_dir, "--username", "reader", name, typed="another\n")
    assert "wants a login that may read it" in wrong


def test_a_registry_that_does_not_answer_is_told(images: Images, data_dir: Path) -> None:
    with socket.socket() as closed:  # bound, so that nobody else is there, and not listening
        closed.bind(("127.0.0.1", 0))
        name = f"127.0.0.1:{closed.getsockname()[1]}/team/tiny:1"
        said = refusal(images, data_dir, name)
    assert "the registry cannot be reached (connection refused)" in said
    assert "no name of an image" in refusal(images, data_dir, "not a name")


def test_plain_http_is_for_registries_on_this_machine_only() -> None:
    here = ("127.0.0.1:5000/a", "127.8.9.1:1/a", "localhost:5000/a", "localhost/a", "[::1]:5000/a")
    elsewhere = ("example.test:5000/a", "python:3", "10.0.0.1:5000/a", "localhost.example.test/a")
    assert all(is_on_this_machine(name) for name in here)
    assert not any(is_on_this_machine(name) for name in elsewhere)
    said = 'level=fatal msg="pinging: Get \\"https://r/v2/\\": http: server gave HTTP response to '
    said += 'HTTPS client"'
    assert "needs HTTPS" in explain_pull("r/a", said)
