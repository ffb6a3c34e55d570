# SPDX-License-Identifier: Apache-2.0
"""Text of a sandbox cannot command the terminal it is shown on."""

import json
import re

import pytest
import yaml

from opensandbox_cli.output import show
from opensandbox_cli.plain_text import PlainBytes, PlainText, without_controls


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\ttext\nover lines\n", "plain\ttext\nover lines\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;Y29weQ==\x1b\\after", "after"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x9b2Jcleared", "cleared"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1b(Bset", "set"),
        ("\x1bcreset", "reset"),
        ("bell\x07 back\x08space\x00", "bell backspace"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("10%\r20%\r30%\n", "10%\n20%\n30%\n"),
        ("\u202ereversed\u202c", "reversed"),
        ("\x1b[38;5;1mä€😀\x1b[m", "ä€😀"),
        ("\x1b\x1b[1mtwice", "twice"),
        ("\x1b]never closed\nnext line", "\nnext line"),
        ("\x1b[31\nmid", "\nmid"),
    ],
)
def test_sequences_are_dropped_and_text_stays(written: str, shown: str) -> None:
    assert without_controls(written) == shown


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
@pytest.mark.parametrize("bad", ["\x1b[2J", "\x9b2J", "\x9d0;\x9c", "\x85", "\u202e", "\x7f", "\r"])
def test_no_format_lets_a_name_command_the_terminal(
    output: str, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [{"path": f"/a{bad}ä€b"}]
    show(found, output, {"PATH": "path"})
    printed = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", printed)
    if output != "table":
        read = json.loads(printed) if output == "json" else yaml.safe_load(printed)
        assert read == found, "programs read what was there"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_sequences_cut_anywhere_are_dropped_too(size: int) -> None:
    written = "a\x1b[31mred\x1b[0m \x1b]0;title\x07b\r\nc\rd €\x1b\\e"
    plain = PlainText()
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    assert "".join(map(plain.feed, pieces)) == "ared b\nc\nd €e"


def test_characters_cut_anywhere_stay_whole() -> None:
    plain = PlainBytes()
    shown = [plain.feed(bytes([byte])) for byte in "€\x1b[1m😀".encode()]
    assert b"".join(shown).decode() == "€😀"
    assert plain.feed("€".encode()[:2], is_last=True).decode() == "�"
