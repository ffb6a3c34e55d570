# SPDX-License-Identifier: Apache-2.0
"""From what is wanted to an OCI config, without any sandbox."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import Resources, SandboxSpec, Secrets
from opensandbox_server.runtimes.oci.bounds import Limits
from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.launcher.bundle import (
    CAPABILITIES,
    Surroundings,
    config,
    environment,
    shm_bytes,
    state_bytes,
)
from opensandbox_server.runtimes.oci.launcher.seccomp import compile_filter, compiled, profile
from opensandbox_server.runtimes.oci.launcher.seccomp_calls import ALLOWED, DONE, REFUSED
from opensandbox_server.runtimes.oci.options import OCIOptions, read_options
from opensandbox_server.runtimes.oci.protocol import LENGTH, Start, encode, verb_of, verb_to_plain

HOST = Image("host", Path("/images/host"), entrypoint=["sh"], host_paths=["/usr"])
START = Start(SandboxSpec("box", "host", ("sleep", "1")), HOST, Limits(), token_sha256="5f")  # noqa: S106
AROUND = Surroundings("/r", "/e", "/u", "/n", 65536, shared={"/usr": "/stage/usr"}, filter=b"bpf")


def test_pid_1_is_execd_with_the_entrypoint_behind_it() -> None:
    process = config(START, AROUND)["process"]
    assert process["args"][0] == "/opt/opensandbox/execd"
    assert process["args"][-3:] == ["--", "sleep", "1"]
    assert process["noNewPrivileges"] is True
    assert process["capabilities"] == {
        kind: list(CAPABILITIES) for kind in ("bounding", "effective", "permitted")
    }


def test_namespaces_are_all_new_or_those_of_the_slot() -> None:
    namespaces = {
        entry["type"]: entry.get("path") for entry in config(START, AROUND)["linux"]["namespaces"]
    }
    assert namespaces == {
        "user": "/u",
        "network": "/n",
        "pid": None,
        "ipc": None,
        "uts": None,
        "mount": None,
        "cgroup": None,
    }


def test_directories_of_the_host_are_read_only_and_come_from_the_stage() -> None:
    (usr,) = [mount for mount in config(START, AROUND)["mounts"] if mount["destination"] == "/usr"]
    assert usr["source"] == "/stage/usr"
    assert {"ro", "nosuid", "nodev"} <= set(usr["options"])


@pytest.mark.parametrize(
    ("places", "mounted"),
    [
        ([], []),
        (["/sys/fs/cgroup"], [("/sys/fs/cgroup", "bind")]),
        (
            ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"],
            [
                ("/sys/fs/cgroup", "tmpfs"),
                ("/sys/fs/cgroup/cpu", "bind"),
                ("/sys/fs/cgroup/memory", "bind"),
            ],
        ),
    ],
)
def test_a_sandbox_sees_its_own_cgroups_and_cannot_change_them(
    places: list[str], mounted: list[tuple[str, str]]
) -> None:
    around = replace(AROUND, views=dict.fromkeys(places, "/host/own"))
    found = [
        mount
        for mount in config(START, around)["mounts"]
        if mount["destination"].startswith("/sys/fs/cgroup")
    ]
    assert [(mount["destination"], mount["type"]) for mount in found] == mounted
    for mount in found:
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(mount["options"])


def test_a_ready_filter_is_an_annotation_and_a_profile_is_not() -> None:
    ready = config(START, AROUND)
    assert base64.b64decode(ready["annotations"]["run.oci.seccomp_bpf_data"]) == b"bpf"
    assert "seccomp" not in ready["linux"]
    compiled_later = config(START, Surroundings("/r", "/e", "/u", "/n", 1, seccomp={"a": 1}))
    assert compiled_later["linux"]["seccomp"] == {"a": 1}
    assert "annotations" not in compiled_later


def test_a_request_cannot_pretend_to_be_another_sandbox() -> None:
    env = {"OPENSANDBOX_ID": "other", "A": "1"}
    start = replace(START, spec=replace(START.spec, env=env))
    assert {"OPENSANDBOX_ID=box", "A=1"} <= set(environment(start))
    assert "OPENSANDBOX_ID=other" not in environment(start)


def test_a_request_wins_over_the_environment_of_its_image() -> None:
    image = replace(HOST, env={"A": "image", "B": "image"})
    start = replace(START, image=image, spec=replace(START.spec, env={"A": "request"}))
    assert {"A=request", "B=image"} <= set(environment(start))


def test_a_start_is_read_as_it_was_sent() -> None:
    spec = SandboxSpec(
        "box", "host", ("x",), {"A": "ü"}, Resources(0.5, 1, 2, 3), ("linux", "amd64"), "crun"
    )
    start = Start(spec, HOST, Limits(0.5, 1024, 3), "/run/box.sock", "5f")
    assert verb_of(json.loads(encode({"seq": 1, **verb_to_plain(start)})[LENGTH.size :])) == start


def test_the_token_is_not_shown_by_what_is_sent_or_printed() -> None:
    secrets = Secrets("a token", ("somebody", "a password"))
    assert not {"a token", "a password"} & set(re.findall(r"'([^']*)'", repr(secrets)))
    assert "secret value" not in repr(replace(START.spec, env={"KEY": "secret value"}))


def test_devices_are_listed_for_a_runtime_that_enters_the_cgroup_and_limits_for_none() -> None:
    limited = replace(START, limits=Limits(cpus=0.5, memory_bytes=1024, pids=3))
    assert "resources" not in config(limited, AROUND)["linux"]
    around = Surroundings("/r", "/e", "/u", "/n", 1, cgroup="/osb/box")
    resources = config(limited, around)["linux"]["resources"]
    assert resources["devices"][0] == {"allow": False, "access": "rwm"}
    assert set(resources) == {"devices"}  # the limits are in the cgroup before it is entered


def test_journals_take_at_most_a_quarter_of_the_memory() -> None:
    assert state_bytes(None) == 256 << 20
    assert state_bytes(100 << 20) == 25 << 20


def test_shared_memory_takes_at_most_a_quarter_of_the_memory() -> None:
    assert shm_bytes(None) == 64 << 20
    assert shm_bytes(100 << 20) == 25 << 20


def test_no_system_call_is_both_allowed_and_refused() -> None:
    assert not set(ALLOWED) & set(REFUSED)
    assert not set(DONE) & {*ALLOWED, *REFUSED}
    assert "clone3" not in {*ALLOWED, *REFUSED}
    conditional = {"clone", "socket", "socketpair", "personality"}
    assert not conditional & {*ALLOWED, *REFUSED}


def test_the_filter_is_compiled_once_and_kept(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    assert program == compile_filter()
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"kept")
    assert compiled(tmp_path) == b"kept"
    assert profile()["defaultErrnoRet"] == 38


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"program": "docker"}, "oci.program"),
        ({"program": "crun", "launcher": "crun"}, "oci.launcher"),
        ({"slots_ahead": 0}, "oci.slots_ahead"),
        ({"concurrent_starts": "two"}, "oci.concurrent_starts"),
        ({"subnet": "10.0.0.0/24"}, "oci.subnet"),
        ({"nameserver": "resolver"}, "oci.nameserver"),
        ({"allow": ["everything"]}, "oci.allow"),
        ({"slotsahead": 1}, "oci.slotsahead: unknown key"),
    ],
)
def test_a_bad_option_is_refused_by_name(table: dict[str, object], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        read_options(table)


def test_options_are_read_as_written_in_the_file() -> None:
    read = read_options({"allow": ["10.1.0.0/16"], "program": "runc"})
    assert read == OCIOptions(allow=("10.1.0.0/16",), program="runc")


def test_a_key_is_still_known_by_its_former_name() -> None:
    assert read_options({"launcher": "runc"}) == OCIOptions(program="runc")
