# SPDX-License-Identifier: Apache-2.0
"""Recipes of images: what is understood of a Dockerfile, and which names an image has."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import ImageUnknown
from opensandbox_server.runtimes.oci.images import (
    BadRecipe,
    FetchFailed,
    Image,
    ImageStore,
    build_image,
)
from opensandbox_server.runtimes.oci.images.build import arguments, digest_of, sources
from opensandbox_server.runtimes.oci.images.recipe import (
    instructions,
    read_dockerfile,
    read_recipe,
    recipe_names,
    recipe_of,
    recipes_directory,
)

RUNNER = Path(__file__).resolve().parents[3] / "dataplane" / "kernel" / "runners" / "go"
OURS = "opensandbox/code-interpreter"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "data", tmp_path / "cache")


def test_a_recipe_has_the_steps_of_the_one_it_begins_with_first() -> None:
    base, whole = read_recipe("base", {}, {}), read_recipe("code-interpreter", {}, {})
    assert whole.steps[: len(base.steps)] == base.steps
    assert (base.suite, whole.suite) == ("bookworm", "bookworm")
    assert whole.cwd == "/workspace"
    assert whole.command == ["/opt/opensandbox/code-interpreter.sh"]
    assert whole.env["PATH"].startswith("/opt/opensandbox/versions/python/default/bin:")


def test_arguments_have_what_is_given_or_their_default_or_the_environments() -> None:
    surroundings = {"PIP_INDEX_URL": "https://index.example", "NODE": "not looked at"}
    recipe = read_recipe("code-interpreter", {"GO": "1.26"}, surroundings)
    (step,) = (step for step in recipe.steps if "go.sh" in step.shell)
    assert {name: step.env[name] for name in ("GO", "NODE", "PIP_INDEX_URL")} == {
        "GO": "1.26",
        "NODE": "24",
        "PIP_INDEX_URL": "https://index.example",
    }
    assert step.cwd == "/usr/share/opensandbox/code-interpreter"
    with pytest.raises(BadRecipe, match="has no build argument GOLANG; it has "):
        read_recipe("code-interpreter", {"GOLANG": "1.26"}, {})


def test_what_is_asked_of_mmdebstrap_is_quoted(tmp_path: Path) -> None:
    recipe = read_recipe("code-interpreter", {"NODE": "24 22; $(reboot)"}, {})
    words = arguments(recipe, tmp_path / "root", "")
    hooks = [word for word in words if word.startswith("--customize-hook=")]
    (node,) = (hook for hook in hooks if "install/node.sh" in hook)
    assert "'NODE=24 22; $(reboot)'" in node
    assert words[-5:-3] == ["bookworm", str(tmp_path / "root")]
    assert words[-3:] == sources("bookworm", "")
    assert sources("bookworm", "http://mirror.example/debian") == [
        "deb http://mirror.example/debian bookworm main"
    ]


def test_an_instruction_may_have_several_lines() -> None:
    text = '# about\nFROM a\n\nRUN one && \\\n    # why\n    two\nCMD ["x"]\n'
    assert list(instructions(text)) == [
        (2, "FROM", "a"),
        (4, "RUN", "one && two"),
        (7, "CMD", '["x"]'),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "USER app",
        "run true",
        "COPY a b c",
        "COPY --from=x . /y",
        "COPY file /x",
        "CMD sleep",
        "ENV NAME value",
        "FROM alpine",
    ],
)
def test_what_is_not_simple_enough_is_told_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM debian:bookworm\n\n{line}\n")
    with pytest.raises(BadRecipe, match=f"Dockerfile:3: {re.escape(line)} is not understood"):
        read_dockerfile(tmp_path, {}, {})


def test_a_recipe_that_is_not_there_is_told_with_those_that_are(store: ImageStore) -> None:
    assert recipe_names() == ["base", "code-interpreter"]
    with pytest.raises(BadRecipe, match="no recipe windows; there is base, code-interpreter"):
        asyncio.run(build_image(store, "windows"))


def test_a_missing_program_or_right_is_told(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    wanted = "apt-get install mmdebstrap" if os.geteuid() == 0 else "with sudo"
    with pytest.raises(FetchFailed, match=wanted):
        asyncio.run(build_image(store, "base"))


@pytest.mark.parametrize(
    "name",
    [
        OURS,
        f"{OURS}:v1.0.1",
        f"registry.example/{OURS}:latest",
        f"registry.example:5000/team/{OURS}",
        "code-interpreter",
        "code-interpreter:v1.0.1",
    ],
)
def test_a_built_image_is_found_by_any_tag_and_registry(store: ImageStore, name: str) -> None:
    with pytest.raises(ImageUnknown, match="opensandbox-server images build code-interpreter"):
        asyncio.run(store.resolve(name))
    store.add(OURS, lambda root: Image("", root))
    assert asyncio.run(store.resolve(name)).name == OURS


@pytest.mark.parametrize(
    "name",
    [
        f"{OURS}@sha256:{'0' * 64}",
        f"{OURS}:v1.0.1@sha256:{'0' * 64}",
        "other/code-interpreter",
        "opensandbox/windows",
        "opensandbox/",
        "..",
        "opensandbox/..",
        f"opensandbox/{'long' * 100}",
    ],
)
def test_other_names_are_not_those_of_a_built_image(store: ImageStore, name: str) -> None:
    store.add(OURS, lambda root: Image("", root))
    assert recipe_of(name) is None
    with pytest.raises(ImageUnknown, match="images pull"):
        asyncio.run(store.resolve(name))


def test_a_sandbox_keeps_the_files_of_an_image_that_it_was_made_from_by_another_name(
    store: ImageStore, tmp_path: Path
) -> None:
    def fill(root: Path) -> Image:
        root.mkdir()
        return Image("", root)

    store.add(OURS, fill)
    record = tmp_path / "data" / "sandboxes" / "one" / "state.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"image": f"{OURS}:v1.0.1", "has_ended": False}))
    store.add(OURS, fill)
    asyncio.run(store.remove(OURS))
    assert len(list(tmp_path.glob("data/images/.old-*/image/rootfs"))) == 2
    record.write_text(json.dumps({"image": f"{OURS}:v1.0.1", "has_ended": True}))
    store.sweep()
    assert list(tmp_path.glob("data/images/.old-*")) == []


def test_an_image_under_exactly_the_wanted_name_comes_first(store: ImageStore) -> None:
    store.add(OURS, lambda root: Image("", root))
    store.add(f"{OURS}:v2", lambda root: Image("", root))
    assert asyncio.run(store.resolve(f"{OURS}:v2")).name == f"{OURS}:v2"
    asyncio.run(store.remove(f"{OURS}:v2"))
    assert asyncio.run(store.resolve(f"{OURS}:v2")).name == OURS


def test_the_checksum_sees_contents_modes_links_and_names(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    file, link = tmp_path / "bin" / "file", tmp_path / "link"
    file.write_bytes(b"12345")
    link.symlink_to("bin/file")
    seen = [digest_of(tmp_path)]
    assert seen[0] == digest_of(tmp_path)
    assert seen[0][1] == 5
    file.chmod(0o700)
    seen.append(digest_of(tmp_path))
    file.write_bytes(b"12346")
    seen.append(digest_of(tmp_path))
    link.unlink()
    link.symlink_to("bin")
    seen.append(digest_of(tmp_path))
    file.rename(tmp_path / "bin" / "other")
    seen.append(digest_of(tmp_path))
    assert len({digest for digest, _ in seen}) == len(seen)


def test_everything_from_pypi_has_a_checksum() -> None:
    files = sorted(recipes_directory().glob("*/requirements/*.txt"))
    assert len(files) >= 5
    for file in files:
        pins = re.split(r"\n(?=[\w-]+==)", file.read_text())[1:]
        assert pins, file
        assert all("--hash=sha256:" in pin for pin in pins), file


def test_the_image_has_built_what_the_runner_and_cells_of_go_import() -> None:
    warm = recipes_directory() / "code-interpreter" / "warm"
    runner = "".join(file.read_text() for file in RUNNER.glob("*.go"))
    imports = set(re.findall(r'^\t"([a-z/]+)"$', runner, re.MULTILINE))
    (usual,) = re.findall(r"^var usual = .*?^}", runner, re.MULTILINE | re.DOTALL)
    assert imports == imported(warm / "program" / "main.go")
    assert {*re.findall(r'"(.+?)"', usual), "unsafe"} == imported(warm / "cell" / "main.go")


def imported(file: Path) -> set[str]:
    """Return the packages that a file imports only to have them built."""
    return set(re.findall(r'^\t_ "(.+)"$', file.read_text(), re.MULTILINE))
