# SPDX-License-Identifier: Apache-2.0
"""What root in a sandbox may not do. Each attack is first seen to work without its protection."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import StartFailed
from opensandbox_server.runtimes.oci.images import Image
from opensandbox_server.runtimes.oci.launcher.bundle import CAPABILITIES
from opensandbox_server.runtimes.oci.launcher.seccomp import compile_filter
from tests.harness.runtime import Box, Home

CAPABILITY_BITS = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_SYS_CHROOT": 18,
    "CAP_SETFCAP": 31,
}
NS_GET_OWNER_UID = 0xB704
MOUNT = "mount -t tmpfs none /mnt && echo mounted"

SYSTEM_CALLS = {
    # name: (number on x86_64, arguments)
    "unshare": (272, "0x20000, 0"),
    "mount": (165, "b'none', b'/mnt', b'tmpfs', 0, 0"),
    "keyctl": (250, "0, -3, 1"),
    "add_key": (248, "b'user', b'name', b'data', 4, -3"),
    "bpf": (321, "0, 0, 0"),
    "userfaultfd": (323, "1"),
    "perf_event_open": (298, "0, 0, -1, -1, 0"),
    "io_uring_setup": (425, "0, 0"),
    "fsopen": (430, "b'tmpfs', 0"),
    "open_tree": (428, "-100, b'/', 1"),
    "mount_setattr": (442, "-100, b'/', 0, 0, 0"),
    "open_by_handle_at": (304, "-100, 0, 0"),
    "setns": (308, "0, 0"),
}

BEHIND_A_FILTER = """
import ctypes, sys
rules = ctypes.create_string_buffer(sys.stdin.buffer.read())
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
program = Program(len(rules) // 8, ctypes.addressof(rules))
if program.length and ctypes.CDLL(None).prctl(22, 2, ctypes.byref(program), 0, 0):  # PR_SET_SECCOMP
    sys.exit("the filter was refused")
"""


def call(name: str) -> str:
    """Return a program that makes a system call and prints its error."""
    number, arguments = SYSTEM_CALLS[name]
    return (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)\n"
        f"result = libc.syscall({number}, {arguments})\n"
        "print('done' if result >= 0 else errno.errorcode[ctypes.get_errno()])"
    )


def test_pid_1_has_the_listed_capabilities_a_filter_and_no_new_privileges(home: Home) -> None:
    wanted = sum(1 << CAPABILITY_BITS[name] for name in CAPABILITIES)
    status = home.start().sh("cat /proc/1/status").output
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert int(fields[name], 16) == wanted
    assert int(fields["CapInh"], 16) == int(fields["CapAmb"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"


def test_commands_have_no_more_than_pid_1(home: Home) -> None:
    status = home.start().sh("cat /proc/self/status").output
    assert "Seccomp:\t2" in status
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t00000000800405fb" in status


@pytest.mark.parametrize("without", [(), ("seccomp",), ("capabilities",)])
def test_mounting_fails_while_one_of_two_protections_is_left(
    home: Home, without: tuple[str, ...]
) -> None:
    unprotected = home.start(without=("seccomp", "capabilities")).sh(MOUNT)
    assert unprotected.output == "mounted"
    assert home.start(without=without).sh(MOUNT).status != 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_a_dangerous_system_call_is_refused_before_the_kernel_looks_at_it(
    home: Home, name: str
) -> None:
    weak = home.start(without=("seccomp", "capabilities")).python(call(name)).output
    assert home.start(without=("capabilities",)).python(call(name)).output == "EPERM"
    if weak == "EPERM":  # as to everyone in a user namespace: seen of the host's root instead
        weak = as_root_of_the_host(name, b"")
        assert as_root_of_the_host(name, compile_filter()) == "EPERM"
    if weak in ("ENOSYS", "EPERM"):
        pytest.skip(f"this kernel itself answers {name} with {weak}")


def as_root_of_the_host(name: str, rules: bytes) -> str:
    """Return the error of a system call outside of any sandbox, behind a filter if one is given."""
    words = [sys.executable, "-c", BEHIND_A_FILTER + call(name)]
    return subprocess.run(words, input=rules, capture_output=True, check=True).stdout.decode()[:-1]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
def test_the_machines_asynchronous_reads_and_writes_cannot_be_used_up(home: Home) -> None:
    """The kernel counts them for the whole machine: a database beside it would get none."""
    take = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)\n"
        "result = libc.syscall(206, 300, ctypes.byref(ctypes.c_ulong()))  # io_setup\n"
        "print('done' if result >= 0 else errno.errorcode[ctypes.get_errno()])\n"
        "print(open('/proc/sys/fs/aio-nr').read())"
    )
    weak = home.start(without=("seccomp",)).python(take).output.split()
    if weak[0] == "ENOSYS":
        pytest.skip("this kernel itself has no such calls")
    assert weak[0] == "done"
    assert int(weak[1]) >= 300
    assert home.start().python(take).output.split()[0] == "ENOSYS"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
def test_clone3_does_not_exist_and_clone_makes_no_namespaces(home: Home) -> None:
    make = (
        "import ctypes, errno, os; libc = ctypes.CDLL(None, use_errno=True)\n"
        "result = libc.syscall({number}, {arguments})\n"
        "if result == 0: os._exit(0)\n"
        "print('made' if result > 0 else errno.errorcode[ctypes.get_errno()])"
    )
    new_pid = make.format(number=56, arguments="0x20000011, 0, 0, 0, 0")
    clone3 = make.format(number=435, arguments="0, 0")
    weak = home.start(without=("seccomp", "capabilities"))
    assert weak.python(new_pid).output == "made"
    assert weak.python(clone3).output == "EINVAL"
    strong = home.start(without=("capabilities",))
    assert strong.python(new_pid).output == "ENOSYS"
    assert strong.python(clone3).output == "ENOSYS"


def test_user_namespaces_are_used_up_even_without_a_filter(home: Home) -> None:
    box = home.start(without=("seccomp",))
    weak = box.sh("unshare --user true")
    assert weak.status != 0
    assert "No space left on device" in weak.output
    allow = ["sh", "-c", "echo 5 > /proc/sys/user/max_user_namespaces"]
    inside = ["nsenter", f"--user=/proc/{pid_of(home, box)}/ns/user"]
    subprocess.run([*inside, *allow], check=True)
    assert box.sh("unshare --user true").status == 0


def test_a_raw_socket_needs_a_capability_nobody_has(home: Home) -> None:
    attack = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('opened')"
    assert home.start(without=("capabilities",)).python(attack).output == "opened"
    assert "PermissionError" in home.start().python(attack).output


def test_setuid_programs_give_nothing(home: Home) -> None:
    become = "import os; os.setgid(1000); os.setuid(1000); os.execv('/tmp/id', ['id', '-u'])"
    for without, user in ((("no_new_privileges",), "0"), ((), "1000")):
        box = home.start(without=without)
        box.sh("cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id")
        assert box.python(become).output == user


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines have one kind of call")
def test_calls_of_32_bit_programs_do_not_go_round_the_filter(home: Home) -> None:
    attack = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes.fromhex('b814000000cd80c3'))  # getpid by int 0x80\n"
        "place = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(place)())"
    )
    weak = home.start(without=("seccomp",)).python(attack).output
    if not weak.isdecimal():
        pytest.skip("this kernel runs no 32-bit programs")
    assert home.start().python(attack).output == f"-{errno.ENOSYS}"


PEEK = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if {uid}:
    os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "refused")
tried = dict(
    environment=lambda: open("/proc/1/environ").read(),
    memory=lambda: open("/proc/1/mem", "rb+").close(),
    root=lambda: os.listdir("/proc/1/root"),
    descriptors=lambda: os.close(os.open("/proc/1/fd/0", os.O_RDONLY)),
    takes_descriptor=lambda: call(438, os.pidfd_open(1), 1, 0),
    traces=lambda: call(101, 0x4206, 1, 0, 0),
    journals=lambda: os.listdir("/run/opensandbox"),
    ends=lambda: os.kill(1, 0),
)
for name, attack in tried.items():
    try:
        attack()
    except PermissionError:
        continue
    print(name)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
def test_nobody_in_a_sandbox_gets_at_its_execd(home: Home) -> None:
    weak = home.start(without=("untraceable",))
    assert len(weak.python(PEEK.format(uid=0)).output.split()) == 8
    box = home.start()
    assert box.python(PEEK.format(uid=0)).output.split() == ["journals", "ends"]
    assert box.python(PEEK.format(uid=1000)).output == ""
    assert weak.python(PEEK.format(uid=1000)).output == ""


def test_what_is_counted_per_user_is_not_counted_against_the_hosts_root(home: Home) -> None:
    """Else one sandbox could use up the inotify instances of the host and of all others."""
    plain = ["unshare", "--user", "--map-root-user", "--kill-child", "--fork"]
    with subprocess.Popen([*plain, "sh", "-c", "echo made; exec sleep 60"], stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        assert owner_of(process.pid) == os.getuid()  # as root makes one without more ado
        process.kill()
    box = home.start()
    first = int(box.sh("awk '{print $2}' /proc/self/uid_map").output)
    assert owner_of(pid_of(home, box)) == first > 0


def owner_of(pid: int) -> int:
    """Return the user that what a process uses is counted against."""
    with Path(f"/proc/{pid}/ns/user").open() as namespace:
        owner = fcntl.ioctl(namespace, NS_GET_OWNER_UID, bytes(4))
    return int.from_bytes(owner, sys.byteorder)


def pid_of(home: Home, box: Box) -> int:
    """Return the first process of a sandbox, as the host counts."""
    record = json.loads((home.data_dir / "sandboxes" / box.id / "state.json").read_text())
    return int(record["pid"])


def test_programs_of_the_launcher_get_none_of_its_descriptors(home: Home) -> None:
    home.start()  # by now it has been passed some, and namespaces of others are open
    opened = Path(f"/proc/{home.launcher}/fdinfo")
    for descriptor in opened.iterdir():
        with contextlib.suppress(FileNotFoundError):
            flags = re.search(r"flags:\s*(\d+)", descriptor.read_text())
            assert flags
            assert int(descriptor.name) < 3 or int(flags[1], 8) & os.O_CLOEXEC, descriptor.name


def test_a_sandbox_does_not_begin_where_a_descriptor_of_its_launcher_leads(home: Home) -> None:
    host = home.run(home.runtime.images.resolve("host"))

    def fill(root: Path) -> Image:
        shutil.copytree(host.rootfs, root, symlinks=True)
        return replace(host, rootfs=root, cwd="/proc/self/fd/7")

    home.runtime.images.add("leaky", fill)
    with pytest.raises(StartFailed, match="the kernel's"):
        home.start("leaky")
