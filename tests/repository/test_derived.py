# SPDX-License-Identifier: Apache-2.0
"""What the documentation says of settings, errors and commands is what the code has."""

import re
from pathlib import Path

import pytest

from tests.repository import attacks, derived
from tests.repository.derived import DOCS, PARTS


@pytest.mark.parametrize("page", derived.pages(), ids=lambda page: page.name)
def test_parts_made_from_the_code_are_current(page: Path) -> None:
    text = page.read_text()
    current = derived.words(derived.renewed(text))
    assert current == derived.words(text), "run: python -m tests.repository.derived"


def test_every_part_has_a_place() -> None:
    text = "".join(page.read_text() for page in DOCS.glob("*.md"))
    assert sorted(re.findall(r"<!-- derived: (\w+) -->", text)) == sorted(PARTS)


def test_only_the_numbers_of_what_is_counted_may_be_old() -> None:
    part = "<!-- derived: {} -->\n 1,397 {}.py\n<!-- /derived -->"
    page = part.format("walk", "one")
    assert derived.words(page) == derived.words(page.replace("1,397", "1"))
    assert derived.words(page) != derived.words(page.replace("one", "two"))
    other = part.format("attacks", "one")
    assert derived.words(other) != derived.words(other.replace("1,397", "1"))


def test_the_tables_are_not_empty() -> None:
    # A row that is lost by the code above would be lost in both places.
    assert "| `port` | `8080` |" in derived.server_settings()
    assert "| `secure_access.accepts_short_signatures` | `false` |" in derived.server_settings()
    assert "| `subnet` | `10.200.0.0/16` |" in derived.oci_settings()
    assert "| `*::SANDBOX_NOT_FOUND` | 404 |" in derived.server_errors()
    assert "Usage: osb sandbox create [OPTIONS]" in derived.cli_help()
    assert "| `125` |" in derived.cli_exit_codes()
    assert "| `command_run` | `command`, `background=false`" in derived.mcp_tools()


def test_every_attack_names_tests_that_are_there() -> None:
    assert attacks.missing_tests() == []
    assert all(row.tests for rows in attacks.read_attacks().values() for row in rows)
