# SPDX-License-Identifier: Apache-2.0
"""The embedded runtime, a registry, and the command that fills the image store."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.runtime import Home, missing, opened_home, own_network
from tests.images.registry import build_registry, make_image, push, serving_registry

Images = Callable[..., "subprocess.CompletedProcess[str]"]
LOGIN = "reader:a password"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
"""One mirror, without updates: what images are built from in tests is there for years."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory for one test, where the embedded runtime works."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    return tmp_path / "home"


@contextlib.contextmanager
def opened(data_dir: Path) -> Iterator[Home]:
    """Have a runtime; in a network of its own, so what is fetched must be there before."""
    with own_network(), opened_home(data_dir) as home:
        yield home


@pytest.fixture
def images(data_dir: Path) -> Images:
    """Call `opensandbox-server images …` on the data directory of that runtime."""

    def call(verb: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "opensandbox_server", "images", verb]
        command += ["--data-dir", str(data_dir), *words]
        return subprocess.run(command, input=typed, capture_output=True, text=True, check=False)

    return call


@pytest.fixture(scope="module")
def registry_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry, built."""
    return build_registry(tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image in a file."""
    file = tmp_path_factory.mktemp("tiny") / "tiny.tar"
    make_image(file)
    return file


@pytest.fixture(scope="module")
def registry(registry_program: Path, tiny: Path) -> Iterator[str]:
    """A registry for everybody, with the image tiny:1."""
    with serving_registry(registry_program) as address:
        push(tiny, f"{address}/team/tiny:1")
        yield address


@pytest.fixture(scope="module")
def closed_registry(registry_program: Path, tiny: Path) -> Iterator[str]:
    """A registry that wants a login, with the image tiny:1."""
    with serving_registry(registry_program, LOGIN) as address:
        push(tiny, f"{address}/team/tiny:1", LOGIN)
        yield address
