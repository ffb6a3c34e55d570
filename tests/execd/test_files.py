# SPDX-License-Identifier: Apache-2.0
"""Files and directories: information, changes, search, identity."""

from datetime import datetime
from typing import Any

import pytest

from tests.execd.events import assert_error, run
from tests.execd.kinds import several_users
from tests.execd.multipart import metadata, part, send, write
from tests.harness.execd import ORDINARY_UID, Daemon


def sh(daemon: Daemon, script: str) -> list[str]:
    execution = run(daemon.client, script, cwd=daemon.workdir)
    assert execution.exit_code == 0, execution.events
    return execution.stdout


def info(daemon: Daemon, *names: str) -> dict[str, Any]:
    query = {"path": [f"{daemon.workdir}/{name}" for name in names]}
    answer = daemon.client.get("/files/info", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_info_tells_everything_about_each_path(daemon: Daemon) -> None:
    sh(daemon, "printf hello > f; chmod 604 f; mkdir d; ln -s f link; mkfifo p")
    found = info(daemon, "f", "d", "link", "p")
    assert len(found) == 4
    file, directory, link, fifo = (found[f"{daemon.workdir}/{n}"] for n in ("f", "d", "link", "p"))
    assert file["path"] == f"{daemon.workdir}/f"
    assert (file["size"], file["mode"], file["type"]) == (5, 604, "file")
    assert [directory["type"], link["type"], fifo["type"]] == ["directory", "symlink", "other"]
    assert datetime.fromisoformat(file["modified_at"]).tzinfo is not None
    assert datetime.fromisoformat(file["created_at"]).tzinfo is not None
    owner = "nobody" if daemon.kind == "user" else "root"
    assert file["owner"] == owner
    assert file["group"]


def test_info_has_the_path_as_it_was_given(daemon: Daemon) -> None:
    sh(daemon, "touch f")
    assert set(daemon.client.get("/files/info", params={"path": "~/f"}).json()) == {"~/f"}


def test_info_of_a_missing_path_is_not_found(daemon: Daemon) -> None:
    sh(daemon, "touch f")
    query = {"path": [f"{daemon.workdir}/f", f"{daemon.workdir}/gone"]}
    assert_error(daemon.client.get("/files/info", params=query), 404, "FILE_NOT_FOUND")
    assert_error(daemon.client.get("/files/info"), 400, "MISSING_QUERY")


def test_deleting_files_ignores_missing_ones_and_refuses_directories(daemon: Daemon) -> None:
    sh(daemon, "touch a b; mkdir d; ln -s d link")
    query = {"path": [f"{daemon.workdir}/{name}" for name in ("a", "gone", "link")]}
    assert daemon.client.delete("/files", params=query).status_code == 200
    assert sh(daemon, "ls") == ["b", "d"]
    answer = daemon.client.delete("/files", params={"path": f"{daemon.workdir}/d"})
    assert answer.status_code == 500
    assert sh(daemon, "ls") == ["b", "d"]


def test_permissions_change_the_mode_and_zero_leaves_it(daemon: Daemon) -> None:
    sh(daemon, "touch f; chmod 600 f")
    path = f"{daemon.workdir}/f"
    for mode, expected in ((755, 755), (0, 755), (4711, 4711)):
        answer = daemon.client.post("/files/permissions", json={path: {"mode": mode}})
        assert answer.status_code == 200, answer.text
        assert info(daemon, "f")[path]["mode"] == expected


@several_users
def test_permissions_change_the_owner_by_name_or_number(daemon: Daemon) -> None:
    sh(daemon, "touch f")
    path = f"{daemon.workdir}/f"
    body = {path: {"mode": 0, "owner": "nobody", "group": "nogroup"}}
    assert daemon.client.post("/files/permissions", json=body).status_code == 200
    assert (info(daemon, "f")[path]["owner"], info(daemon, "f")[path]["group"]) == (
        "nobody",
        "nogroup",
    )
    body = {path: {"mode": 0, "owner": "12345", "group": None}}
    assert daemon.client.post("/files/permissions", json=body).status_code == 200
    assert (info(daemon, "f")[path]["owner"], info(daemon, "f")[path]["group"]) == (
        "12345",
        "nogroup",
    )


@pytest.mark.parametrize("mode", [8, 648, -1, 77777, "644", 1.5])
def test_a_mode_that_is_not_octal_digits_is_refused(shared_daemon: Daemon, mode: object) -> None:
    sh(shared_daemon, "touch f; chmod 600 f")
    path = f"{shared_daemon.workdir}/f"
    answer = shared_daemon.client.post("/files/permissions", json={path: {"mode": mode}})
    assert_error(answer, 400, "INVALID_REQUEST_BODY")
    assert info(shared_daemon, "f")[path]["mode"] == 600


def test_permissions_of_a_missing_file_or_unknown_owner_are_refused(daemon: Daemon) -> None:
    sh(daemon, "touch f")
    answer = daemon.client.post("/files/permissions", json={f"{daemon.workdir}/x": {"mode": 644}})
    assert_error(answer, 404, "FILE_NOT_FOUND")
    body = {f"{daemon.workdir}/f": {"mode": 0, "owner": "no-such-user"}}
    assert daemon.client.post("/files/permissions", json=body).status_code >= 400


def test_moving_makes_parents_and_does_not_overwrite(daemon: Daemon) -> None:
    sh(daemon, "echo a > a; echo b > b; mkdir d; touch d/f")
    work = daemon.workdir
    moves = [
        {"src": f"{work}/a", "dest": f"{work}/x/y/a"},
        {"src": f"{work}/d", "dest": f"{work}/e"},
    ]
    assert daemon.client.post("/files/mv", json=moves).status_code == 200
    assert sh(daemon, "cat x/y/a; ls e") == ["a", "f"]
    onto = [{"src": f"{work}/b", "dest": f"{work}/x/y/a"}]
    assert daemon.client.post("/files/mv", json=onto).status_code == 500
    assert sh(daemon, "cat x/y/a b") == ["a", "b"]
    missing = [{"src": f"{work}/gone", "dest": f"{work}/z"}]
    assert_error(daemon.client.post("/files/mv", json=missing), 404, "FILE_NOT_FOUND")


def test_search_matches_base_names_of_files_at_any_depth(daemon: Daemon) -> None:
    sh(daemon, "mkdir -p a/b; touch one.txt a/two.txt a/b/three.txt a/b/four.md; mkdir a/dir.txt")
    query = {"path": daemon.workdir, "pattern": "*.txt"}
    found = daemon.client.get("/files/search", params=query).json()
    paths = sorted(entry["path"].removeprefix(daemon.workdir + "/") for entry in found)
    assert paths == ["a/b/three.txt", "a/two.txt", "one.txt"]
    every = daemon.client.get("/files/search", params={"path": daemon.workdir}).json()
    assert {e["path"].rsplit("/", 1)[1] for e in every} >= {"one.txt", "four.md"}


def test_search_refuses_a_bad_glob_and_a_missing_path(daemon: Daemon) -> None:
    query = {"path": daemon.workdir, "pattern": "[unclosed"}
    assert daemon.client.get("/files/search", params=query).status_code == 400
    gone = daemon.client.get("/files/search", params={"path": f"{daemon.workdir}/gone"})
    assert_error(gone, 404, "FILE_NOT_FOUND")
    assert_error(daemon.client.get("/files/search"), 400, "MISSING_QUERY")


def test_replace_counts_and_keeps_the_mode(daemon: Daemon) -> None:
    sh(daemon, "printf 'aXbXc' > f; chmod 640 f; printf none > g")
    work = daemon.workdir
    body = {
        f"{work}/f": {"old": "X", "new": "--"},
        f"{work}/g": {"old": "X", "new": "-"},
    }
    answer = daemon.client.post("/files/replace", params={"verbose": "true"}, json=body)
    assert answer.json() == {
        f"{work}/f": {"replacedCount": 2},
        f"{work}/g": {"replacedCount": 0},
    }
    assert sh(daemon, "cat f; echo; stat -c %a f") == ["a--b--c", "640"]
    quiet = daemon.client.post("/files/replace", json={f"{work}/f": {"old": "--", "new": ""}})
    assert (quiet.status_code, quiet.content) == (200, b"")
    assert sh(daemon, "cat f") == ["abc"]


def test_replace_refuses_an_empty_old_and_a_missing_file(daemon: Daemon) -> None:
    sh(daemon, "printf x > f")
    empty = daemon.client.post(
        "/files/replace", json={f"{daemon.workdir}/f": {"old": "", "new": "y"}}
    )
    assert_error(empty, 400, "INVALID_REQUEST_BODY")
    gone = daemon.client.post(
        "/files/replace", json={f"{daemon.workdir}/g": {"old": "x", "new": "y"}}
    )
    assert_error(gone, 404, "FILE_NOT_FOUND")


def test_checksums_are_those_of_the_usual_programs(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/f", b"hello")
    path = f"{daemon.workdir}/f"
    for algorithm in ("sha256", "sha512", "sha1", "md5"):
        answer = daemon.client.get(
            "/files/checksum", params={"path": path, "algorithm": algorithm}
        ).json()
        expected = sh(daemon, f"{algorithm}sum f")[0].split()[0]
        assert answer == {path: {"algorithm": algorithm, "digest": expected, "size": 5}}
    bad = daemon.client.get("/files/checksum", params={"path": path, "algorithm": "crc32"})
    assert bad.status_code == 400
    gone = daemon.client.get("/files/checksum", params={"path": f"{path}x"})
    assert_error(gone, 404, "FILE_NOT_FOUND")


def test_a_directory_is_made_with_parents_and_mode(daemon: Daemon) -> None:
    path = f"{daemon.workdir}/x/y"
    assert daemon.client.post("/directories", json={path: {"mode": 750}}).status_code == 200
    assert sh(daemon, "stat -c %a x/y") == ["750"]
    assert daemon.client.post("/directories", json={path: {"mode": 700}}).status_code == 200
    assert sh(daemon, "stat -c %a x/y") == ["750"]  # only new ones get the mode
    sh(daemon, "touch file")
    onto = daemon.client.post("/directories", json={f"{daemon.workdir}/file": {"mode": 755}})
    assert onto.status_code >= 400


def test_listing_goes_as_deep_as_asked(daemon: Daemon) -> None:
    sh(daemon, "rm -f .execd-envs; mkdir -p b/c; touch a b/c/deep z; ln -s b link")

    def listed(**query: str) -> list[str]:
        params = {"path": daemon.workdir, **query}
        answer = daemon.client.get("/directories/list", params=params)
        assert answer.status_code == 200, answer.text
        return [entry["path"].removeprefix(f"{daemon.workdir}/") for entry in answer.json()]

    assert listed() == ["a", "b", "link", "z"]
    assert listed(depth="0") == []
    assert listed(depth="3") == ["a", "b", "b/c", "b/c/deep", "link", "z"]
    for path, code in (("link", 400), ("a", 400), ("gone", 404)):
        query = {"path": f"{daemon.workdir}/{path}"}
        assert daemon.client.get("/directories/list", params=query).status_code == code
    bad = {"path": daemon.workdir, "depth": "-1"}
    assert daemon.client.get("/directories/list", params=bad).status_code == 400


def test_deleting_a_directory_is_recursive_and_does_not_follow_links(daemon: Daemon) -> None:
    sh(daemon, "mkdir -p keep d/e; touch keep/f d/e/f; ln -s ../keep d/link")
    query = {"path": [f"{daemon.workdir}/d", f"{daemon.workdir}/gone"]}
    assert daemon.client.delete("/directories", params=query).status_code == 200
    assert sh(daemon, "ls; ls keep") == ["keep", "f"]


@pytest.mark.parametrize("path", ["", "relative/../../x", "$UNSET_VARIABLE/x"])
def test_a_path_that_cannot_be_expanded_or_is_empty_is_refused(
    shared_daemon: Daemon, path: str
) -> None:
    answer = shared_daemon.client.get("/files/info", params={"path": path})
    assert answer.status_code in (400, 404)


@several_users
def test_an_identity_writes_and_reads_as_that_user(daemon: Daemon) -> None:
    sh(daemon, "mkdir open closed; chmod 777 open; chmod 700 closed; touch closed/secret")
    prefix = f"/v1/filesystem/{ORDINARY_UID}/{ORDINARY_UID}"
    path = f"{daemon.workdir}/open/mine"
    write(daemon.client, path, b"x", prefix=prefix)
    assert sh(daemon, "stat -c '%u %g' open/mine") == [f"{ORDINARY_UID} {ORDINARY_UID}"]
    refused = send(
        daemon.client,
        metadata(f"{daemon.workdir}/closed/new"),
        part("file", b"x"),
        prefix=prefix,
    )
    assert refused.status_code >= 400
    secret = {"path": f"{daemon.workdir}/closed/secret"}
    assert daemon.client.get(f"{prefix}/files/download", params=secret).status_code >= 400
    assert daemon.client.get("/files/download", params=secret).status_code == 200
    assert sh(daemon, "ls closed") == ["secret"]


@pytest.mark.parametrize("identity", ["-1/0", "0/x", "4294967295/0", "0/4294967295", "1.5/0"])
def test_an_identity_out_of_range_is_refused(shared_daemon: Daemon, identity: str) -> None:
    answer = shared_daemon.client.get(
        f"/v1/filesystem/{identity}/files/info", params={"path": shared_daemon.workdir}
    )
    assert answer.status_code == 400
