# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_copies.py by scripts/unasync.py; change it there.
"""Copies between this machine and a sandbox; the sandbox is not trusted."""

import hashlib
import os
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.exceptions import InvalidArgumentException, SandboxApiException
from opensandbox.models import FileEvent


class Seen:
    """What a progress callback was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int | None]] = []

    def __call__(self, done: int, total: int | None) -> None:
        self.calls.append((done, total))


def _tree(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def test_a_file_goes_there_and_comes_back(
    sandbox: SandboxSync, workdir: str, tmp_path: Path
) -> None:
    local, back = tmp_path / "local", tmp_path / "back" / "file"
    local.write_bytes(os.urandom(1_000_003))
    local.chmod(0o640)
    up, down = Seen(), Seen()
    sandbox.files.upload_file(local, f"{workdir}/deep/er/remote", progress=up)
    sandbox.files.download_file(f"{workdir}/deep/er/remote", back, progress=down)
    assert back.read_bytes() == local.read_bytes()
    for seen in (up, down):
        assert seen.calls[-1] == (1_000_003, 1_000_003)
        assert seen.calls == sorted(seen.calls)
    info = sandbox.files.get_file_info([f"{workdir}/deep/er/remote"])
    assert info[f"{workdir}/deep/er/remote"].mode == 640
    sandbox.files.upload_file(local, f"{workdir}/other", mode=755)
    assert (sandbox.files.get_file_info([f"{workdir}/other"]))[f"{workdir}/other"].mode == 755
    sandbox.files.download_file(f"{workdir}/other", tmp_path / "back")
    assert (tmp_path / "back" / "other").read_bytes() == local.read_bytes()


def test_a_copy_that_fails_leaves_nothing_half_done(
    sandbox: SandboxSync, workdir: str, tmp_path: Path
) -> None:
    with pytest.raises(SandboxApiException) as missing:
        sandbox.files.download_file(f"{workdir}/missing", tmp_path / "file")
    assert missing.value.error.code == "FILE_NOT_FOUND"
    for wrong in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidArgumentException, match="not a file on this machine"):
            sandbox.files.upload_file(wrong, f"{workdir}/file")
    with pytest.raises(InvalidArgumentException, match="not a directory on this machine"):
        sandbox.files.upload_directory(tmp_path / "missing", f"{workdir}/directory")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_goes_there_and_comes_back(
    sandbox: SandboxSync, workdir: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "a" / "empty").mkdir(parents=True)
    (source / "a" / "large").write_bytes(os.urandom(700_001))
    (source / "ünïcode").write_text("x")
    (source / ("long" * 40)).write_text("y")
    (source / "link").symlink_to("a/large")
    (source / "a" / "up").symlink_to("../ünïcode")
    os.mkfifo(source / "fifo")
    up, down = Seen(), Seen()
    sandbox.files.upload_directory(source, f"{workdir}/there", progress=up)
    sandbox.files.download_directory(f"{workdir}/there", tmp_path / "back", progress=down)
    (source / "fifo").unlink()
    assert _tree(tmp_path / "back") == _tree(source)
    assert up.calls[-1] == (700_003, 700_003)
    assert down.calls[-1] == (700_003, None)


def test_a_directory_replaces_what_is_in_its_way(
    sandbox: SandboxSync, workdir: str, tmp_path: Path
) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.write_text("mine")
    target.mkdir()
    (target / "file").symlink_to(outside)
    sandbox.files.write_file(f"{workdir}/d/file", "theirs")
    sandbox.files.download_directory(f"{workdir}/d", target)
    assert (target / "file").read_text() == "theirs"
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "here/../../outside", ".."])
def test_a_link_that_leads_out_is_left_out_and_named(
    sandbox: SandboxSync, workdir: str, tmp_path: Path, target: str
) -> None:
    made = f"mkdir -p {workdir}/d && cd {workdir}/d && ln -s {target} link && echo x > file"
    sandbox.commands.run(f"{made} && ln -s file inside")
    left_out = sandbox.files.download_directory(f"{workdir}/d", tmp_path / "back")
    assert left_out == {"link": target}
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["file", "inside"]
    assert (tmp_path / "back" / "inside").readlink() == Path("file")


def test_checksums_are_those_of_the_files(sandbox: SandboxSync, workdir: str) -> None:
    sandbox.files.write_file(f"{workdir}/file", b"content")
    path = f"{workdir}/file"
    expected = hashlib.sha256(b"content").hexdigest()
    assert sandbox.files.checksum([path]) == {path: expected}
    md5 = hashlib.md5(b"content", usedforsecurity=False).hexdigest()
    assert sandbox.files.checksum([path], algorithm="md5") == {path: md5}
    with pytest.raises(SandboxApiException) as missing:
        sandbox.files.checksum([f"{workdir}/missing"])
    assert missing.value.error.code == "FILE_NOT_FOUND"


def test_a_watch_tells_what_happens(sandbox: SandboxSync, workdir: str) -> None:
    sandbox.files.write_file(f"{workdir}/sub/file", "x")
    events: list[FileEvent] = []
    for event in sandbox.files.watch(workdir, recursive=True):
        events.append(event)
        if event.type == "ready":
            sandbox.files.delete_files([f"{workdir}/sub/file"])
        elif event.type == "remove":
            break
    assert events[0].type == "ready"
    assert events[-1].path == f"{workdir}/sub/file"


def test_metrics_can_be_watched(sandbox: SandboxSync) -> None:
    for sample in sandbox.metrics.watch():
        assert 0 < sample.memory_used_in_mib <= sample.memory_total_in_mib
        break


def test_a_temporary_sandbox_is_gone_after_its_block(sandbox: SandboxSync) -> None:
    config = sandbox.connection_config
    with SandboxSync.temporary("image", connection_config=config) as temporary:
        assert (temporary.commands.run("echo here")).text == "here"
    with pytest.raises(SandboxApiException) as gone:
        SandboxSync.connect(temporary.id, config)
    assert gone.value.status_code == 404
