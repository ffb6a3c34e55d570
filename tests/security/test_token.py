# SPDX-License-Identifier: Apache-2.0
"""The token of execd: nobody in the sandbox can read it, in a file, a variable or a memory."""

from __future__ import annotations

import pytest

from tests.harness.runtime import TOKEN, Home

# Written backwards: the text of these programs passes through execd and its files itself.
FIND = f"TOKEN = {TOKEN[::-1]!r}[::-1].encode()\n"
IN_FILES = (
    FIND
    + """
import os
skipped = ("/proc", "/sys", "/usr", "/dev/pts")
files = [f"/proc/{pid}/{name}" for pid in os.listdir("/proc") if pid.isdecimal()
         for name in ("environ", "cmdline", "comm", "stat")]
for where, directories, names in os.walk("/"):
    directories[:] = [d for d in directories if os.path.join(where, d) not in skipped]
    files += [path for name in names if os.path.isfile(path := os.path.join(where, name))]
for path in files:
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 20):
                if TOKEN in part:
                    print(path)
    except OSError:
        continue
print("looked at", len(files) > 100)
"""
)
IN_MEMORY = (
    FIND
    + """
found = 0
with open("/proc/1/maps") as maps, open("/proc/1/mem", "rb", 0) as memory:
    for line in maps:
        ends, rights = line.split()[:2]
        if not rights.startswith("rw"):
            continue
        first, last = (int(end, 16) for end in ends.split("-"))
        memory.seek(first)
        try:
            while first < last and (part := memory.read(min(1 << 20, last - first))):
                found += part.count(TOKEN)
                first += len(part)
        except OSError:
            continue
print("found", found > 0)
"""
)


def test_the_token_is_in_no_file_variable_or_argument_of_the_sandbox(home: Home) -> None:
    careless = home.start(env={"TOKEN": TOKEN})
    careless.sh(f"echo {TOKEN} > /workspace/token")
    found = careless.python(IN_FILES).output.splitlines()
    assert (
        "/proc/1/environ"
        in home.start(env={"TOKEN": TOKEN}, without=("untraceable",)).python(IN_FILES).output
    )
    assert "/workspace/token" in found
    assert any(path.endswith("/environ") for path in found)
    assert home.start().python(IN_FILES).output == "looked at True"


@pytest.mark.parametrize("without", [(), ("capabilities",), ("seccomp",)])
def test_the_token_cannot_be_read_from_the_memory_of_execd(
    home: Home, without: tuple[str, ...]
) -> None:
    assert home.start(without=("untraceable",)).python(IN_MEMORY).output == "found True"
    assert "PermissionError" in home.start(without=without).python(IN_MEMORY).output
