# SPDX-License-Identifier: Apache-2.0
"""Recipes of images: Dockerfiles, as far as they are simple. Pure, but for reading the files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from opensandbox_server.runtimes.base import RuntimeFault

_FILE = "Dockerfile"
_PACKAGE = Path(__file__).parents[3]
FAMILY = "opensandbox"
"""Images of ours are called opensandbox/RECIPE, in whatever registry."""
_DEBIAN = re.compile(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(?:-slim)?")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class BadRecipe(RuntimeFault):
    """There is no such recipe, or it has something that is not understood here."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction that changes files."""

    instruction: str
    """As the recipe has it; shown while it is done."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    shell: str = ""
    """What to run in the image; empty when something is copied."""
    source: Path = Path()
    target: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is made: of which Debian, and then step by step."""

    suite: str
    steps: Sequence[Step] = ()
    arguments: Sequence[str] = ()
    """The names of all build arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    command: Sequence[str] = ()


def recipe_names() -> Sequence[str]:
    """Return the recipes there are."""
    return sorted(file.parent.name for file in recipes_directory().glob(f"*/{_FILE}"))


def recipes_directory() -> Path:
    """Find the recipes: in the wheel, else in the source tree."""
    for place in (_PACKAGE / "recipes", _PACKAGE.parent.parent / "sandboxes"):
        if place.is_dir():
            return place
    raise BadRecipe("the recipes of images (sandboxes/) are not installed; reinstall the server")


def recipe_of(image: str) -> str | None:
    """Return the recipe that an image is named after; None when it is named after none.

    Any tag and any registry will do; not a digest, which says exactly what must be in it.
    """
    path, _, name = image.rpartition("/")
    name = name.partition(":")[0]
    is_ours = "@" not in image and (path.rpartition("/")[2] == FAMILY or not path)
    return name if is_ours and name in recipe_names() else None


def read_recipe(name: str, given: Mapping[str, str], environ: Mapping[str, str]) -> Recipe:
    """Read a recipe with those that it begins with. Raises BadRecipe.

    An argument has the value that is given, else its default, else that of the environment.
    """
    if name not in recipe_names():
        raise BadRecipe(f"there is no recipe {name}; there is {', '.join(recipe_names())}")
    recipe = read_dockerfile(recipes_directory() / name, given, environ)
    for unknown in sorted(set(given) - set(recipe.arguments)):
        known = ", ".join(sorted(set(recipe.arguments)))
        raise BadRecipe(f"the recipe {name} has no build argument {unknown}; it has {known}")
    return recipe


def read_dockerfile(
    directory: Path, given: Mapping[str, str], environ: Mapping[str, str]
) -> Recipe:
    """Read the Dockerfile in a directory. Raises BadRecipe."""
    reader = _Reader(directory, given, environ)
    for number, instruction, words in instructions((directory / _FILE).read_text()):
        try:
            reader.take(instruction, words)
        except ValueError as fault:
            place = f"{directory}/{_FILE}:{number}"
            raise BadRecipe(f"{place}: {instruction} {words} is not understood here") from fault
    return reader.recipe


def instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the instructions of a Dockerfile: line number, name, and the rest."""
    began, whole = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        began = began if whole else number
        whole += plain.removesuffix("\\")
        if not plain.endswith("\\"):
            name, _, rest = whole.partition(" ")
            yield began, name, rest.strip()
            whole = ""


class _Reader:
    """What has been read of one recipe; a method for each instruction."""

    def __init__(
        self, directory: Path, given: Mapping[str, str], environ: Mapping[str, str]
    ) -> None:
        self.recipe = Recipe(suite="")
        self._directory = directory
        self._given = given
        self._environ = environ
        self._arguments: dict[str, str] = {}

    def take(self, instruction: str, words: str) -> None:
        """Take the next instruction. Raises ValueError for one that is not simple enough."""
        methods = {
            "ARG": self._take_arg,
            "FROM": self._take_from,
            "COPY": self._take_copy,
            "RUN": self._take_run,
            "ENV": self._take_env,
            "WORKDIR": self._take_workdir,
            "CMD": self._take_cmd,
        }
        if instruction not in methods:
            raise ValueError(instruction)
        methods[instruction](words)

    def _take_arg(self, words: str) -> None:
        name, has_default, default = words.partition("=")
        value = self._given.get(name)
        if value is None:
            value = _plain(default) if has_default else self._environ.get(name)
        if value is not None:
            self._arguments[name] = value
        # Like FROM, its own argument does not reach those a recipe begins with.
        known = [] if name == "BASE" else [name]
        self.recipe = replace(self.recipe, arguments=[*self.recipe.arguments, *known])

    def _take_from(self, words: str) -> None:
        base = self._expand(words)
        debian = _DEBIAN.fullmatch(base)
        ours = recipe_of(base)
        if debian:
            begun = Recipe(suite=debian[1])
        elif ours:
            begun = read_dockerfile(recipes_directory() / ours, self._given, self._environ)
        else:
            raise ValueError(base)
        self.recipe = replace(begun, arguments=[*begun.arguments, *self.recipe.arguments])
        self._arguments = {}

    def _take_copy(self, words: str) -> None:
        source, target = self._expand(words).split()
        if source != ".":
            raise ValueError(source)
        self._add(Step(f"COPY {words}", source=self._directory, target=target))

    def _take_run(self, words: str) -> None:
        env = {**self._arguments, **self.recipe.env}
        self._add(Step(f"RUN {words}", env=env, cwd=self.recipe.cwd, shell=words))

    def _take_env(self, words: str) -> None:
        pair = self._expand(_plain(words))
        name, value = pair.split("=", 1)
        env = {**self.recipe.env, name: value}
        self.recipe = replace(self.recipe, env=env)

    def _take_workdir(self, words: str) -> None:
        self.recipe = replace(self.recipe, cwd=self._expand(words))

    def _take_cmd(self, words: str) -> None:
        self.recipe = replace(self.recipe, command=json.loads(words))

    def _add(self, step: Step) -> None:
        self.recipe = replace(self.recipe, steps=[*self.recipe.steps, step])

    def _expand(self, text: str) -> str:
        known = {**self._arguments, **self.recipe.env}
        return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), text)


def _plain(value: str) -> str:
    """Remove quotes as a shell does."""
    return " ".join(shlex.split(value))
