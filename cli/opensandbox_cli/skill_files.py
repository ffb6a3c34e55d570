# SPDX-License-Identifier: Apache-2.0
"""The skills that come with osb, and where each coding tool looks for such texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opensandbox_cli.failures import CommandFault, ExitCode

FOLDER = Path(__file__).with_name("skills")
SCOPES = ("project", "global")


@dataclass(frozen=True)
class Skill:
    """A text with a name and a line that says when to read it."""

    name: str
    description: str
    body: str

    @property
    def text(self) -> str:
        """The whole file, as tools with skills of their own want it."""
        return f"---\nname: {self.name}\ndescription: {self.description}\n---\n\n{self.body}"


@dataclass(frozen=True)
class Target:
    """One tool: where below a project or a home its files are, and what is above the text."""

    pattern: str
    head: str = "---\nname: {name}\ndescription: {description}\n---\n"

    def path(self, name: str, scope: str) -> Path:
        """Return where a skill of this name is kept."""
        base = Path.home() if scope == "global" else Path.cwd()
        return base / self.pattern.format(name=name)

    def text(self, skill: Skill) -> str:
        """Return the file's content."""
        head = self.head.format(name=skill.name, description=skill.description)
        return f"{head}\n{skill.body}"


TARGETS: Mapping[str, Target] = {
    "claude": Target(".claude/skills/{name}/SKILL.md"),
    "codex": Target(".codex/skills/{name}/SKILL.md"),
    "gemini": Target(".gemini/skills/{name}/SKILL.md"),
    "opencode": Target(".agents/skills/{name}/SKILL.md"),
    "cursor": Target(
        ".cursor/rules/{name}.mdc",
        "---\ndescription: {description}\nglobs:\nalwaysApply: false\n---\n",
    ),
    "copilot": Target(
        ".github/instructions/{name}.instructions.md",
        '---\ndescription: {description}\napplyTo: "**"\n---\n',
    ),
    "windsurf": Target(".windsurf/rules/{name}.md", "# {name}\n\n{description}\n"),
    "cline": Target(".clinerules/{name}.md", "# {name}\n\n{description}\n"),
}


def skills_here() -> list[Skill]:
    """Return every skill that comes with osb."""
    return [_read(path) for path in sorted(FOLDER.glob("*.md"))]


def find_skill(name: str) -> Skill:
    """Return the skill of this name."""
    for skill in skills_here():
        if skill.name == name:
            return skill
    raise CommandFault(f"no skill {name!r}; list them with: osb skills list", ExitCode.NOT_FOUND)


def _read(path: Path) -> Skill:
    """Read a file whose first line is what it teaches and when."""
    description, _, body = path.read_text().partition("\n\n")
    return Skill(path.stem, description.strip(), body)
