# SPDX-License-Identifier: Apache-2.0
"""Runs a program and stays until nothing of it is left.

    python keeper.py PROGRAM ARGUMENT…

Like the init of a machine it inherits whatever loses its parent, and reaps it. It prints the
program's process id and ends when neither the program nor any descendant lives any more, with the
program's status: a test that can wait for it knows that no process was left behind.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(program: str, *arguments: str) -> int:
    """Start, announce, reap until there is nothing to reap."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    actions = [(os.POSIX_SPAWN_DUP2, 2, 1)]  # our own output is for the test alone
    pid = os.posix_spawn(program, [program, *arguments], os.environ, file_actions=actions)
    print(pid, flush=True)
    os.close(2)  # the log ends when the last of those who write to it does
    status = 0
    while True:
        try:
            ended, how = os.wait()
        except ChildProcessError:
            return status
        if ended == pid:
            status = os.waitstatus_to_exitcode(how) & 0xFF


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
