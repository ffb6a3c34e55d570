# SPDX-License-Identifier: Apache-2.0
"""The walk that scripts/walk.py counts leads through files and functions that are there."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import walk
from scripts.walk import Stage, Total

PYTHON = """\
class Box:
    @property
    def size(self) -> int:
        return 1

    async def open(self) -> None:
        pass


def close() -> None: ...
"""
GO = """\
package box

type Box struct {
	size int
}

func (b *Box) Open(
	name string,
) error {

	return nil
}

func (Box) Size() int { return 1 }

func Close[T any]() {
}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Write two small sources."""
    (tmp_path / "box.py").write_text(PYTHON)
    (tmp_path / "box.go").write_text(GO)
    return tmp_path


def test_everything_on_the_walk_is_there() -> None:
    assert walk.stale(walk.all_stages()) == []
    assert walk.undecided(walk.all_stages()) == []


def test_it_prints_every_file_and_the_totals() -> None:
    done = subprocess.run(
        [sys.executable, str(walk.ROOT / "scripts" / "walk.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [s.file for s in walk.all_stages() if s.file not in done.stdout] == []
    assert "\neverything touched " in done.stdout
    assert "\nwithout what can be taken on trust " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= walk.WIDTH


def test_what_moved_is_named(sources: Path) -> None:
    stages = [
        Stage("server", "gone.py", ("main",)),
        Stage("server", "box.py", ("Box.open", "open", "Box.gone")),
        Stage("execd", "box.go", ("Box.Open", "Open")),
    ]
    assert walk.stale(stages, sources) == [
        "gone.py is not there",
        "box.py has no open",
        "box.py has no Box.gone",
        "box.go has no Open",
    ]


def test_lines_are_those_of_whole_functions_and_types(sources: Path) -> None:
    python, go = walk.places(sources / "box.py"), walk.places(sources / "box.go")
    assert {name: len(lines) for name, lines in python.items()} == {
        "Box": 7,
        "Box.size": 3,
        "Box.open": 2,
        "close": 1,
    }
    assert {name: len(lines) for name, lines in go.items()} == {
        "Box": 3,
        "Box.Open": 6,
        "Box.Size": 1,
        "Close": 2,
    }


def test_what_is_passed_twice_is_counted_once(sources: Path) -> None:
    stages = [Stage("server", "box.py", ("Box", "Box.open")), Stage("server", "box.py", ("close",))]
    assert walk.total(stages, sources) == Total(files=1, lines=10, named_lines=8)


def test_a_file_is_opened_or_taken_on_trust() -> None:
    stages = [walk.read("a", "one.py"), walk.trust("a", "one.py"), walk.trust("a", "two.py")]
    assert walk.undecided(stages) == ["one.py"]
