# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands, flags and the ids of sandboxes."""

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.tests.program import Osb
from cli.tests.screen import Screen

pytestmark = pytest.mark.slow


def completions(osb: Osb, line: str) -> list[str]:
    """Ask as bash does."""
    words = line.split(" ")
    asking = {
        "_OSB_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = dataclasses.replace(osb, variables=asking).run()
    items = done.stdout.decode().splitlines()
    return [item.split(",", 1)[1] for item in items if item]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(lonely_osb: Osb, shell: str) -> None:
    script = lonely_osb.print_("completion", shell)
    assert "_OSB_COMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script.encode(), check=True)


def test_commands_and_flags_are_completed(lonely_osb: Osb) -> None:
    assert completions(lonely_osb, "osb sa") == ["sandbox"]
    assert completions(lonely_osb, "osb sandbox re") == ["renew", "resume"]
    assert completions(lonely_osb, "osb sandbox create --net") == ["--network-policy-file"]
    assert completions(lonely_osb, "osb completion ") == ["bash", "zsh", "fish"]


class Zsh(Osb):
    """A shell on a terminal, with osb on its path."""

    @property
    def command(self) -> list[str]:
        """How it is started."""
        return [program("zsh"), "-i"]


def program(name: str) -> str:
    """Return where a shell is."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here; scripts/setup dev installs it")
    return found


def path_with(osb: Osb) -> str:
    """Return a PATH where osb is first."""
    return f"{Path(osb.command[0]).parent}{os.pathsep}{os.environ['PATH']}"


def test_ids_are_completed_and_silence_is_no_answer(osb: Osb, lonely_osb: Osb) -> None:
    with osb.sandbox() as made:
        assert completions(osb, f"osb exec {made[:6]}") == [made]
    assert completions(lonely_osb, "osb exec ") == []


def test_bash_itself_completes(lonely_osb: Osb) -> None:
    script = lonely_osb.print_("completion", "bash")
    ask = 'COMP_WORDS=(osb snap); COMP_CWORD=1; _osb_completion "$0"; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}", lonely_osb.command[0]],
        env=lonely_osb.environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"snapshot\n"


def test_zsh_itself_completes_from_a_start_file_that_has_nothing_else(lonely_osb: Osb) -> None:
    script = lonely_osb.print_("completion", "zsh")
    (lonely_osb.home / ".zshrc").write_text(f"{script}\nPS1='ready> '\n")
    around = {"PATH": path_with(lonely_osb), "ZDOTDIR": str(lonely_osb.home)}
    with Screen(Zsh(lonely_osb.home, variables=around)) as screen:
        screen.wait_for("ready> ")
        screen.press("osb snaps\t--help\n")
        screen.wait_for("Keep the files of a sandbox.")


def test_fish_itself_completes(lonely_osb: Osb) -> None:
    script = lonely_osb.print_("completion", "fish")
    done = subprocess.run(
        [program("fish"), "--no-config", "-c", f"{script}\ncomplete -C 'osb snap'"],
        env={**lonely_osb.environment, "PATH": path_with(lonely_osb)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.split(b"\t")[0] == b"snapshot"
