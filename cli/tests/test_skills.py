# SPDX-License-Identifier: Apache-2.0
"""``osb skills``: texts for coding tools, whose commands exist."""

import re

import click
import pytest

from cli.tests.program import Osb
from opensandbox_cli.main import osb as root
from opensandbox_cli.skill_files import TARGETS, skills_here

SKILLS = {skill.name: skill for skill in skills_here()}


@pytest.mark.parametrize("name", SKILLS)
def test_every_command_in_a_skill_exists_with_its_flags(name: str) -> None:
    lines = re.findall(r"(?:^|`|\$\(|\| )osb ([a-z-]+.*)", SKILLS[name].body, re.MULTILINE)
    assert lines
    for line in lines:
        words = re.split(r"[`|#)]| -- ", line)[0].split()
        command: click.Command = root
        while isinstance(command, click.Group) and words:
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, line
            command = found
        known = {flag for param in command.params for flag in param.opts}
        flags = {word for word in words if word.startswith("-")}
        assert flags <= known, line


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_is_short_and_says_when_to_read_it(name: str) -> None:
    assert "Read this" in SKILLS[name].description
    assert ": " not in SKILLS[name].description, "it would not be one value of YAML"
    assert len(SKILLS[name].body.splitlines()) < 60


def test_skills_are_installed_listed_and_removed(lonely_osb: Osb) -> None:
    osb, home = lonely_osb, lonely_osb.home
    osb.print_("skills", "install", "sandbox-lifecycle", "-t", "claude")
    path = home / ".claude" / "skills" / "sandbox-lifecycle" / "SKILL.md"
    assert path.read_text() == osb.print_("skills", "show", "sandbox-lifecycle")
    assert "claude:project" in osb.print_("skills", "list")
    path.write_text("mine")
    refused = osb.run("skills", "install", "sandbox-lifecycle", "-t", "claude")
    assert (refused.returncode, b"--force" in refused.stderr) == (1, True)
    osb.print_("skills", "install", "sandbox-lifecycle", "-t", "claude", "-f")
    osb.print_("skills", "uninstall", "sandbox-lifecycle", "-t", "claude")
    assert not path.parent.exists()
    assert osb.run("skills", "uninstall", "sandbox-lifecycle", "-t", "claude").returncode == 1


def test_all_skills_go_to_all_tools(lonely_osb: Osb) -> None:
    words = ("skills", "install", "--all-builtins", "-t", "all", "--scope", "global")
    assert len(lonely_osb.print_(*words).splitlines()) == len(SKILLS) * len(TARGETS)
    assert (lonely_osb.home / ".cursor" / "rules" / "network-egress.mdc").exists()
    assert lonely_osb.run("skills", "show", "nothing").returncode == 5
