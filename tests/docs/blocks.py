# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of a page: what each is, and what it promises to print."""

import re
from dataclasses import dataclass, replace

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DERIVED = re.compile(r"<!-- (?:derived|help).*?<!-- /(?:derived|help) -->", re.DOTALL)
_VARYING = re.compile(r"…|[^\s…]*\d[^\s…]*")


@dataclass(frozen=True)
class Block:
    """One fenced block that somebody wrote; derived ones have tests of their own."""

    page: str
    line: int
    language: str
    tags: tuple[str, ...]
    text: str
    output: "Block | None" = None
    """The text block right below: what this one prints."""

    @property
    def name(self) -> str:
        """Say where it is."""
        return f"{self.page}:{self.line}"

    def promises(self, printed: str) -> bool:
        """Tell whether this is a true picture of what was printed.

        A block with the tag `like` shows a shape: whatever has a digit in it may differ, `…` stands
        for anything in a line, and a line with nothing else for any number of lines.
        """
        if "like" not in self.tags:
            return printed == self.text
        return bool(re.fullmatch("".join(_shape(line) for line in self.text.splitlines()), printed))


def _shape(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*"
    pieces = re.split(f"({_VARYING.pattern})", line)
    patterns = (
        r".*" if piece == "…" else r"\S*\d\S*" if _VARYING.fullmatch(piece) else _spaced(piece)
        for piece in pieces
    )
    return "".join(patterns) + r" *\n"


def _spaced(text: str) -> str:
    # Columns are as wide as what stands in them.
    return r"[ \t]*".join(re.escape(word) for word in re.split(r"[ \t]+", text))


def find_blocks(page: str, text: str) -> list[Block]:
    """Return the written blocks of a page, in order."""
    # Derived parts are blanked, so that lines keep their numbers.
    text = _DERIVED.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    blocks: list[Block] = []
    below: tuple[Block, int] | None = None  # the block that follows, and where it begins
    for found in reversed(list(_BLOCK.finditer(text))):
        block = _block(page, text, found)
        if below and below[0].language == "text" and not text[found.end() : below[1]].strip():
            block = replace(block, output=below[0])
        blocks.append(block)
        below = block, found.start()
    return blocks[::-1]


def _block(page: str, text: str, found: re.Match[str]) -> Block:
    language, *tags = found[1].split() or [""]
    line = text.count("\n", 0, found.start()) + 1
    return Block(page, line, language, tuple(tags), found[2])
