# SPDX-License-Identifier: Apache-2.0
"""The Python pack: made once, whole, shared, and made again when what it is made of changes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import RuntimeFault
from opensandbox_server.runtimes.oci.images import ImageStore
from opensandbox_server.runtimes.oci.images.distributions import fingerprint, with_requirements
from opensandbox_server.runtimes.oci.images.interpreter import (
    CannotMove,
    Interpreter,
    check_moved,
    copy_interpreter,
    own_interpreter,
)
from opensandbox_server.runtimes.oci.images.pack import Plan, is_whole, place_pack, plan_pack
from server.tests.small_disk import small_disk

MAKE = """
import sys
from pathlib import Path
from opensandbox_server.runtimes.oci.images.pack import place_pack, plan_pack
place_pack(plan_pack(), (Path(sys.argv[1]),), Path(sys.argv[2]))
"""
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this module."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """What is installed here."""
    return plan_pack()


@pytest.fixture(scope="module")
def light_plan(plan: Plan) -> Plan:
    """The same on an interpreter that need not be copied, if this machine has one."""
    theirs = _visible_interpreter(plan)
    return plan if theirs is None else replace(plan, interpreter=theirs)


@pytest.fixture(scope="module")
def pack(plan: Plan, cache: Path) -> Path:
    """A pack made of it, and held."""
    return place_pack(plan, (cache,), cache / "images")


def _visible_interpreter(plan: Plan) -> Interpreter | None:
    name = plan.interpreter.name
    theirs = Interpreter(Path("/usr"), Path("/usr/lib") / name, plan.interpreter.version)
    return theirs if theirs.program.exists() and theirs.is_visible else None


def said_by(program: Path, code: str) -> str:
    """Run Python code with nothing in the environment."""
    done = subprocess.run(
        [program, "-c", code], env={}, cwd="/", capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_its_python_has_ipython_and_no_package_of_the_host(pack: Path, plan: Plan) -> None:
    code = "import IPython, sys; print(IPython.__file__, sys.version.split()[0], *sys.path)"
    module, version, *path = said_by(pack / "bin/python3", code).split()
    assert Path(module).is_relative_to(pack)
    assert version == plan.interpreter.version
    packages = [one for one in path if one.endswith("-packages")]
    assert packages == [str(pack / "lib" / plan.interpreter.name / "site-packages")]


def test_everybody_can_read_all_of_it_and_nobody_but_root_can_write(pack: Path) -> None:
    for path in (pack, *pack.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o777
            assert mode in ((0o755,) if path.is_dir() else (0o644, 0o755)), path


def test_nothing_in_it_says_where_its_packages_were_installed(pack: Path) -> None:
    names = {path.name for path in pack.rglob("*.dist-info/*")}
    assert "METADATA" in names
    assert not names & {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def test_what_ipython_imports_is_compiled_ahead(pack: Path) -> None:
    code = "import IPython, sys; print(*(m.__cached__ for m in list(sys.modules.values())"
    code += " if getattr(m, '__cached__', None) and 'IPython' in (m.__file__ or '')))"
    cached = said_by(pack / "bin/python3", code).split()
    assert cached
    assert all(Path(one).is_file() for one in cached)


def test_a_second_server_shares_the_pack_of_the_first(
    pack: Path, plan: Plan, cache: Path, tmp_path: Path
) -> None:
    made = pack.stat().st_ino
    assert place_pack(plan, (cache,), tmp_path / "images") == pack
    assert pack.stat().st_ino == made


def test_two_servers_that_start_at_once_make_one_pack(light_plan: Plan, tmp_path: Path) -> None:
    made: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda number=number: made.append(
                place_pack(light_plan, (tmp_path / "cache",), tmp_path / f"images-{number}")
            )
        )
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert len(set(made)) == 1
    assert list((tmp_path / "cache").glob("python-*")) == [made[0]]


def test_another_version_gets_another_pack_and_one_that_no_image_names_goes(
    pack: Path, light_plan: Plan, tmp_path: Path
) -> None:
    cache, images = tmp_path / "cache", tmp_path / "images"
    old, kept, new = (cache / f"python-{name}" for name in ("old", "kept", "new"))
    for made in (old, kept, new):
        shutil.copytree(pack, made, symlinks=True)
        os.utime(made, (0, 0))
    for name, named in (("host", kept), (".old-1/image", new)):
        (images / name).mkdir(parents=True)
        (images / name / "image.json").write_text(json.dumps({"pack": str(named)}))
    place_pack(replace(light_plan, key="kept"), (cache,), images)
    os.utime(kept, (0, 0))
    made = place_pack(replace(light_plan, key="made"), (cache,), tmp_path / "other")
    assert is_whole(made)
    assert not old.exists()
    assert is_whole(kept)
    assert is_whole(new)
    shutil.rmtree(images)
    place_pack(replace(light_plan, key="kept"), (cache,), tmp_path / "another")
    assert len(list((cache / "users").iterdir())) == 1


def test_a_changed_file_of_a_package_changes_the_fingerprint(tmp_path: Path) -> None:
    described = tmp_path / "thing-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (described / "RECORD").write_text("thing.py,sha256=aaaa,1\n")
    before = fingerprint(PathDistribution(described))
    (described / "RECORD").write_text("thing.py,sha256=bbbb,1\n")
    assert fingerprint(PathDistribution(described)) != before


def test_the_packages_are_those_ipython_needs_here_and_no_others() -> None:
    names = {one.metadata["Name"].lower() for one in with_requirements("ipython")}
    assert {"ipython", "traitlets", "jedi", "parso"} <= names
    assert not names & {"colorama", "pytest", "fastapi", "opensandbox-server"}


def test_what_a_killed_server_left_half_made_is_replaced(light_plan: Plan, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    words = [sys.executable, "-c", MAKE, str(cache), str(tmp_path / "images")]
    process = subprocess.Popen(words)
    until = time.monotonic() + PATIENCE_SECONDS
    while not list(cache.glob(".new-*/lib")):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(cache.glob(".new-*"))
    assert is_whole(place_pack(light_plan, (cache,), tmp_path / "images"))
    assert not list(cache.glob(".new-*"))


def test_a_pack_that_lost_the_content_of_a_file_is_made_anew(
    pack: Path, light_plan: Plan, tmp_path: Path
) -> None:
    damaged = tmp_path / "cache" / pack.name
    shutil.copytree(pack, damaged, symlinks=True)
    module = next(damaged.rglob("IPython/__init__.py"))
    module.write_bytes(b"#" * module.stat().st_size)
    assert place_pack(light_plan, (damaged.parent,), tmp_path / "images") == damaged
    assert is_whole(damaged)
    assert module.read_bytes() == next(pack.rglob("IPython/__init__.py")).read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_a_pack_that_others_changed_or_can_change_is_not_whole(pack: Path, tmp_path: Path) -> None:
    theirs = tmp_path / pack.name
    shutil.copytree(pack, theirs, symlinks=True)
    assert is_whole(theirs)
    module, link = next(theirs.rglob("IPython/__init__.py")), theirs / "bin" / "python"
    changes: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: (theirs / "bin/more").touch(), lambda: (theirs / "bin/more").unlink()),
        (lambda: os.mkfifo(theirs / "bin/more"), lambda: (theirs / "bin/more").unlink()),
        (lambda: module.chmod(0o4755), lambda: module.chmod(0o644)),
        (lambda: theirs.chmod(0o777), lambda: theirs.chmod(0o755)),
        (lambda: tmp_path.chmod(0o777), lambda: tmp_path.chmod(0o755)),
        (lambda: module.parent.chmod(0o775), lambda: module.parent.chmod(0o755)),
        (lambda: os.chown(theirs, 4321, 0), lambda: os.chown(theirs, 0, 0)),
        (lambda: os.lchown(link, 4321, 0), lambda: os.lchown(link, 0, 0)),
        (lambda: link.rename(link.with_name("moved")), lambda: None),
    ]
    for change, undo in changes:
        change()
        assert not is_whole(theirs)
        undo()


def test_a_cache_that_others_can_write_is_not_used(
    pack: Path, plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for cache in (theirs, ours):
        shutil.copytree(pack, cache / pack.name, symlinks=True)
    theirs.chmod(0o777)
    assert place_pack(plan, (theirs, ours), tmp_path / "images").parent == ours
    assert f"{theirs} is not used" in caplog.text
    with pytest.raises(PermissionError, match="others can write"):
        place_pack(plan, (theirs,), tmp_path / "images")


def test_a_copied_interpreter_needs_nothing_that_sandboxes_do_not_see(tmp_path: Path) -> None:
    interpreter = own_interpreter()
    copy_interpreter(interpreter, tmp_path / "pack")
    program = tmp_path / "pack" / "bin" / "python3"
    program.symlink_to(interpreter.name)
    check_moved(tmp_path / "pack", "ssl", "sqlite3", "ctypes")
    prefix = said_by(program, "import sys; print(sys.prefix)")
    assert prefix == str(tmp_path / "pack")
    copied = tmp_path / "pack" / "lib" / interpreter.name
    for left_out in ("test", "idlelib", "turtledemo", "site-packages", "sitecustomize.py"):
        assert not (copied / left_out).exists()


def test_an_interpreter_that_cannot_move_is_told_from_one_that_can(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    (tmp_path / "pyvenv.cfg").write_text(f"home = {own_interpreter().program.parent}\n")
    if own_interpreter().is_visible:
        check_moved(tmp_path)
    else:
        with pytest.raises(CannotMove, match="which sandboxes do not see"):
            check_moved(tmp_path)
    with pytest.raises(CannotMove, match="does not run"):
        check_moved(tmp_path / "nowhere")


def test_on_an_interpreter_that_sandboxes_see_the_pack_has_none_of_its_own(
    plan: Plan, tmp_path: Path
) -> None:
    name = plan.interpreter.name
    theirs = _visible_interpreter(plan)
    if theirs is None:
        pytest.skip(f"this machine has no /usr/bin/{name}")
    pack = place_pack(replace(plan, interpreter=theirs), (tmp_path / "cache",), tmp_path / "images")
    assert (pack / "bin" / name).readlink() == theirs.program
    assert not (pack / "lib" / name / "os.py").exists()
    code = "import IPython, sys; print(sys.base_prefix, IPython.__file__)"
    base, module = said_by(pack / "bin/python3", code).split()
    assert base == "/usr"
    assert Path(module).is_relative_to(pack)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("size", ["600k", "16m", "40m"])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, size: str) -> None:
    with small_disk(tmp_path / "small", size) as small:
        store = ImageStore(small / "data", small / "cache")
        with pytest.raises(RuntimeFault, match=f"No space left .*{small}/cache"):
            asyncio.run(store.resolve("host"))
        assert not list(small.glob("*/python-*"))
        assert not list(small.glob("*/.new-*"))
        assert not list(small.glob("data/images/*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_without_a_cache_that_can_be_written_the_data_directory_has_the_pack(
    tmp_path: Path,
) -> None:
    (tmp_path / "cache").write_text("in the way")
    image = asyncio.run(ImageStore(tmp_path / "data", tmp_path / "cache").resolve("host"))
    assert Path(image.pack).is_relative_to(tmp_path / "data" / "cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_an_emptied_cache_is_filled_again(pack: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(pack, cache / pack.name, symlinks=True)
    image = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    shutil.rmtree(cache)
    again = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    assert again.pack == image.pack
    assert is_whole(Path(again.pack))


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_a_server_looks_at_its_pack_before_it_is_used(pack: Path, tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", tmp_path / "data" / "cache"
    for copy in (cache, other):
        shutil.copytree(pack, copy / pack.name, symlinks=True)
    image = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    assert image.pack == str(cache / pack.name)
    module = next(Path(image.pack).rglob("IPython/__init__.py"))
    module.write_bytes(b"#" * module.stat().st_size)
    # So that it need not be made again, which takes long, there is another to take.
    shutil.rmtree(cache / "users")
    (cache / "users").write_text("in the way")
    again = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    assert again.pack == str(other / pack.name)


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_a_former_host_image_is_replaced_when_the_pack_is_another(
    pack: Path, cache: Path, tmp_path: Path
) -> None:
    image = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    assert image.pack == str(pack)
    marker = image.rootfs.parent / "stamp"
    marker.write_text(marker.read_text().rpartition(".")[0] + ".another")
    again = asyncio.run(ImageStore(tmp_path / "data", cache).resolve("host"))
    assert json.loads((again.rootfs.parent / "image.json").read_text())["pack"] == str(pack)
    assert marker.read_text().endswith(pack.name.removeprefix("python-"))


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
def test_what_a_killed_import_left_is_swept_but_not_what_another_makes(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "data")
    images = tmp_path / "data" / "images"
    (images / ".new-left" / "rootfs").mkdir(parents=True)

    def fill(root: Path) -> None:
        ImageStore(tmp_path / "data").sweep()
        assert root.parent.is_dir()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        store.add("one", fill)  # type: ignore[arg-type]  # it never returns
    assert list(images.iterdir()) == []
