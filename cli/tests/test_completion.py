# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands, flags and the ids of sandboxes."""

import dataclasses
import subprocess

import pytest

from cli.tests.program import Osb

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
