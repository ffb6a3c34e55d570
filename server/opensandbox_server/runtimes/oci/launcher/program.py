# SPDX-License-Identifier: Apache-2.0
"""The OCI runtime program: crun, else runc. A faster one would replace this file.

Only starts are its work: the kernel does the rest (signals, the freezer, waiting) in less time than
it takes to start the program.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOG_BYTES = 8192
FIRST_FREE_FD = 10
"""Below it are the numbers a container gets."""
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class RunFailed(Exception):
    """The program did not start the container; the message is what it said."""


class ProgramMissing(Exception):
    """Neither crun nor runc is installed."""


@dataclass(frozen=True, slots=True)
class Program:
    """One OCI runtime."""

    name: str
    path: str
    state: Path
    copy: int = -1
    """A descriptor of a copy of the program that nobody can change; see sealed."""

    def sealed(self) -> Program:
        """Return the same one, run from a copy in memory.

        A container must not be able to overwrite the program that enters it. Every run would
        therefore first copy or remount its own program and start again from there, which is a
        third of the time it takes; it sees that this copy is sealed and goes on at once.
        """
        return replace(self, copy=_sealed_copy(self.path))

    @property
    def takes_compiled_seccomp(self) -> bool:
        """True when a ready filter can be passed in an annotation."""
        return self.name == "crun"

    def needs_own_cgroup(self, *, is_v1: bool) -> bool:
        """True when it must be told to make the cgroup itself: crun cannot on hybrid hosts."""
        return self.name != "crun" or not is_v1

    def run(
        self,
        container: str,
        bundle: Path,
        files: Mapping[int, int],
        *,
        makes_cgroup: bool,
        divide: Callable[[], None],
    ) -> int:
        """Start the container and return the pid of its first process.

        files are the descriptors it gets, its number → ours; ours are FIRST_FREE_FD or more.
        divide gives its cgroup parts before anything of it runs. runc refuses a cgroup that has
        parts for threads, so it makes the container first.
        """
        pid_file = f"--pid-file={bundle / 'pid'}"
        # As many as there are above the usual three: the next number is that of its own log.
        kept = f"--preserve-fds={max(files) - 2}"
        new = ["--no-new-keyring", kept, pid_file, f"--bundle={bundle}", container]
        if self.name == "crun":
            divide()
            manager = "cgroupfs" if makes_cgroup else "disabled"
            self._do(bundle, files, [f"--cgroup-manager={manager}", "run", "--detach", *new])
        else:
            self._do(bundle, files, ["create", *new])
            divide()
            self._do(bundle, files, ["start", container])
        return int((bundle / "pid").read_text())

    def _do(self, bundle: Path, files: Mapping[int, int], verb: list[str]) -> None:
        words = [self.path, f"--root={self.state}", f"--log={bundle / 'log'}", *verb]
        actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in files.items()]
        file = words[0] if self.copy < 0 else f"/proc/self/fd/{self.copy}"
        pid = os.posix_spawn(file, words, {"PATH": SEARCH_PATH}, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise RunFailed(f"{self.name} failed: {_last_words(bundle / 'log')}")


def find_oci_program(chosen: str, state: Path) -> Program:
    """Find the program. Raises ProgramMissing with the command that installs it."""
    for name in (chosen,) if chosen else ("crun", "runc"):
        if path := shutil.which(name, path=SEARCH_PATH):
            return Program(name, path, state)
    raise ProgramMissing(f"{chosen or 'crun'} is not installed; apt-get install {chosen or 'crun'}")


def _sealed_copy(program: str) -> int:
    writable = os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(writable), "wb") as copy:
            copy.write(Path(program).read_bytes())
        fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
        # What is open for writing cannot be executed, sealed or not.
        opened = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writable)
    try:
        return fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
    finally:
        os.close(opened)


def _last_words(log: Path) -> str:
    try:
        with log.open("rb") as file:
            said = file.read(LOG_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        said = ""
    return said or "it said nothing"


@contextlib.contextmanager
def empty_file() -> Iterator[int]:
    """Open what ends at once when read.

    Not /dev/null: crun makes the sandbox's root the owner of its standard input, and that would be
    the host's /dev/null, which the sandbox could then close to everybody.
    """
    descriptor = os.memfd_create("nothing", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor
    finally:
        os.close(descriptor)
