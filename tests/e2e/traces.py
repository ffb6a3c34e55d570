# SPDX-License-Identifier: Apache-2.0
"""What a server leaves on the host besides processes: links, rules, cgroups, mounts, files.

Other programs share the host and may be other servers, so only what belongs to the one under test
is looked at: its bridge is named by the server in the interface's alias, its cgroups are those its
processes were seen in.
"""

import contextlib
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_LINKS = Path("/sys/class/net")
_CGROUPS = Path("/sys/fs/cgroup")
_STAGES = Path("/run/opensandbox/stage")
_CLAIMS = Path("/run/opensandbox/ids")
_BRIDGE = re.compile(r"\b(osb[0-9]+)(?:v[0-9]+)?\b")


@dataclass
class Marks:
    """By what the server's things are known."""

    bridges: set[str] = field(default_factory=set)
    cgroups: set[str] = field(default_factory=set)

    def notice(self, data_dir: Path, processes: list[int]) -> None:
        """Look at a server while it has sandboxes."""
        for link in _LINKS.iterdir():
            with contextlib.suppress(OSError):
                if str(data_dir) in (link / "ifalias").read_text():
                    self.bridges.add(link.name)
        own = _cgroups_of("self")
        for pid in processes:
            self.cgroups |= {path.strip("/").split("/")[0] for path in _cgroups_of(pid) - own}


@dataclass(frozen=True)
class Traces:
    """Everything of it that exists at one moment."""

    links: frozenset[str]
    tables: frozenset[str]
    cgroups: frozenset[str]
    mounts: frozenset[str]
    files: frozenset[str]
    claims: frozenset[str]


def look(marks: Marks, home: Path) -> Traces:
    """Look at the host. Files are those below home, and what stages of any server leave."""
    bridges = [name for name in marks.bridges if not _is_anothers(name, home)]
    ours = re.compile(rf"\b({'|'.join(bridges) or 'none'})(v[0-9]+)?\b")
    return Traces(
        links=frozenset(link.name for link in _LINKS.iterdir() if ours.fullmatch(link.name)),
        tables=frozenset(
            # The guard of forwarding names every bridge there can be, and is all servers' together.
            rule
            for rule in _rules()
            if (named := set(_BRIDGE.findall(rule))) and named <= set(bridges)
        ),
        cgroups=frozenset(
            str(found)
            for name in marks.cgroups
            for pattern in (f"{name}", f"*/{name}")
            for top in _CGROUPS.glob(pattern)
            for found in (top, *top.rglob("*/"))
        ),
        mounts=frozenset(one for one in _mounts() if str(home) in one or str(_STAGES) in one),
        files=frozenset(str(file) for top in (home, _STAGES) for file in top.rglob("*")),
        claims=frozenset(claim.name for claim in _claims() if str(home) in claim.read_text()),
    )


def _is_anothers(bridge: str, home: Path) -> bool:
    """Say whether a server of another home has the bridge by now: names are given out again."""
    with contextlib.suppress(OSError):
        alias = (_LINKS / bridge / "ifalias").read_text().strip()
        return bool(alias) and str(home) not in alias
    return False


def _claims() -> list[Path]:
    # Others may have servers here too, so which part of the ids a server gets may differ.
    return list(_CLAIMS.iterdir()) if _CLAIMS.exists() else []


def _rules() -> list[str]:
    if shutil.which("nft") is None:
        return []
    listed = subprocess.run(
        ["nft", "list", "ruleset"], capture_output=True, text=True, check=False
    ).stdout
    return listed.splitlines()


def _mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [" ".join(line.split(" ")[3:5]) for line in lines]  # what, and where


def _cgroups_of(pid: int | str) -> set[str]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return set()
    return {line.split(":", 2)[2] for line in lines}
