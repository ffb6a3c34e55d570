# SPDX-License-Identifier: Apache-2.0
"""``osb file`` and ``osb cp``: files in and out, of which nothing escapes."""

import json
import os
import stat
from pathlib import Path

import pytest

from cli.tests.program import Osb
from cli.tests.screen import Screen

pytestmark = pytest.mark.slow


def test_files_are_written_read_searched_changed_and_deleted(real_osb: Osb) -> None:
    osb = real_osb
    with osb.sandbox() as made:
        assert osb.print_("file", "write", made, "/tmp/d/a.txt", "-c", "one two one") != ""
        osb.print_("file", "write", made, "/tmp/d/b.txt", "--mode", "0644", stdin=b"\xff\x00raw")
        assert osb.print_("file", "cat", made, "/tmp/d/a.txt") == "one two one"
        assert osb.run("file", "cat", made, "/tmp/d/b.txt").stdout == b"\xff\x00raw"
        assert "replaced 2" in osb.print_(
            "file", "replace", made, "/tmp/d/a.txt", "--old", "one", "--new", "1"
        )
        absent = osb.run("file", "replace", made, "/tmp/d/a.txt", "--old", "x", "--new", "y")
        assert absent.returncode == 1
        found = osb.print_("file", "search", made, "/tmp/d", "-p", "*.txt", "-o", "raw")
        assert sorted(found.split()) == ["/tmp/d/a.txt", "/tmp/d/b.txt"]
        osb.print_("file", "chmod", made, "/tmp/d/a.txt", "--mode", "600")
        info = json.loads(
            osb.print_("file", "info", made, "/tmp/d/a.txt", "/tmp/d/b.txt", "-o", "json")
        )
        assert [entry["mode"] for entry in info] == [600, 644]
        osb.print_("file", "mv", made, "/tmp/d/a.txt", "/tmp/d/c.txt")
        osb.print_("file", "mkdir", made, "/tmp/e/f", "--mode", "700")
        osb.print_("file", "rm", made, "/tmp/d/b.txt")
        left = osb.print_("exec", made, "--", "find", "/tmp/d", "/tmp/e", "-mindepth", "1")
        assert sorted(left.split()) == ["/tmp/d/c.txt", "/tmp/e/f"]
        osb.print_("file", "rmdir", made, "/tmp/d", "/tmp/e")
        assert osb.run("file", "info", made, "/tmp/d").returncode == 5


def test_files_go_up_and_down_as_they_are(real_osb: Osb, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "local").write_bytes(content)
    with real_osb.sandbox() as made:
        real_osb.print_("file", "upload", made, "local", "/tmp/remote")
        real_osb.print_("file", "download", made, "/tmp/remote", "back")
    assert (tmp_path / "back").read_bytes() == content


def test_directories_are_copied_in_and_out_whole(real_osb: Osb, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    (tree / "deep" / "deeper" / "file").write_text("content")
    (tree / "script").write_text("#!/bin/sh\necho ran\n")
    (tree / "script").chmod(0o755)
    with real_osb.sandbox() as made:
        real_osb.print_("cp", "tree", f"{made}:/workspace/")
        assert real_osb.print_("exec", made, "--", "/workspace/tree/script") == "ran\n"
        real_osb.print_("cp", "tree", f"{made}:/workspace/other")
        real_osb.print_("cp", f"{made}:/workspace/other", "back")
        real_osb.print_("cp", f"{made}:/workspace/tree/script", ".")
    assert (tmp_path / "back" / "deep" / "deeper" / "file").read_text() == "content"
    assert (tmp_path / "script").read_text() == "#!/bin/sh\necho ran\n"


def test_a_directory_of_a_sandbox_cannot_write_outside_of_its_copy(
    real_osb: Osb, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with real_osb.sandbox() as made:
        trap = f"mkdir /tmp/d; ln -s {outside} /tmp/d/link; ln -s /etc/passwd /tmp/d/secret"
        real_osb.print_("exec", made, "--", f"{trap}; echo x > /tmp/d/file; ln -s file /tmp/d/near")
        done = real_osb.run("cp", f"{made}:/tmp/d", "copy")
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["file", "near"]
    assert (tmp_path / "copy" / "near").readlink() == Path("file")
    assert (done.returncode, sorted(done.stderr.decode().splitlines())) == (
        0,
        [
            f"osb: left out the link link to {outside}, which leads out of the directory",
            "osb: left out the link secret to /etc/passwd, which leads out of the directory",
        ],
    )


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("missing", "ID:/tmp/x", "missing does not exist; check the path"),
        ("ID:/no/such", "here", "/no/such"),
        ("ID:/etc/hostname", "no/such/directory/x", "mkdir -p"),
    ],
)
def test_a_copy_that_cannot_work_says_why(
    osb: Osb, source: str, target: str, complaint: str
) -> None:
    with osb.sandbox() as made:
        done = osb.run("cp", source.replace("ID", made), target.replace("ID", made))
    assert done.returncode != 0
    assert complaint in done.stderr.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
def test_a_full_disk_is_named_and_a_device_is_never_replaced(osb: Osb, tmp_path: Path) -> None:
    full = tmp_path / "full"
    os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    with osb.sandbox() as made:
        done = osb.run("cp", f"{made}:/etc/passwd", str(full))
    assert done.returncode == 1
    assert done.stderr == (
        b"osb: No space left on device; free some space or choose another place\n"
    )
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_terminal_sees_how_far_a_copy_is_and_a_pipe_does_not(osb: Osb, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(4 << 20))
    target = tmp_path / "copied"
    with osb.sandbox() as made:
        assert osb.run("cp", "big", f"{made}:{target}").stderr == b""
        with Screen(osb, "cp", "big", f"{made}:{target}") as screen:
            assert screen.wait() == 0
    assert "big [########################] 100% 4.0 MiB of 4.0 MiB" in screen.text


def test_a_name_cannot_command_the_terminal_that_a_search_prints_on(
    osb: Osb, tmp_path: Path
) -> None:
    name = "a\x1b]0;title\x07\x1b[2J\u009b2J\u202eb"
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / name).touch()
    search = ("file", "search", None, str(tmp_path / "found"), "-p", "a*")
    with osb.sandbox() as made:
        words = [word or made for word in search]
        for output in ("raw", "json", "yaml", "table"):
            with Screen(osb, *words, "-o", output) as screen:
                assert screen.wait() == 0
            for bad in ("\x1b]", "\x1b[2J", "\x07", "\u009b", "\u202e"):
                assert bad not in screen.text, output
