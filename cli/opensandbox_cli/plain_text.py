# SPDX-License-Identifier: Apache-2.0
"""Text of a sandbox without what would command the terminal it is shown on.

A program in a sandbox may write sequences that move the cursor, set the title, fill the clipboard
or hide what it did. They are dropped wherever a sandbox's text is shown and no terminal session was
asked for. Lines, tabs and every printable character stay.
"""

import codecs
import re
import sys

# Reorders what follows it: text would read as something that it is not.
_BIDIRECTIONAL = "\u202a-\u202e\u2066-\u2069"
_UNWANTED_IN_JSON = re.compile(f"[\x7f-\x9f{_BIDIRECTIONAL}]")
_UNWANTED = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDIRECTIONAL}]")
_BELL = "\x07"
_STRING_INTRODUCERS = {"]", "P", "X", "^", "_"}
_C1_STRING_INTRODUCERS = {"\x9d", "\x90", "\x98", "\x9e", "\x9f"}


class PlainText:
    """Takes text piece by piece and returns it plain; sequences may be cut anywhere."""

    def __init__(self) -> None:
        """Start outside of any sequence."""
        self._state = self._in_text
        self._ends_with_return = False

    def feed(self, text: str) -> str:
        """Return what of a piece may be shown."""
        shown: list[str] = []
        position = 0
        while position < len(text):
            position = self._state(text, position, shown)
        return "".join(shown)

    def _in_text(self, text: str, position: int, shown: list[str]) -> int:
        found = _UNWANTED.search(text, position)
        end = found.start() if found else len(text)
        plain = text[position:end]
        if plain:
            # A return alone would let the next words overwrite the last ones.
            shown.append(plain if not self._ends_with_return or plain[0] == "\n" else "\n" + plain)
            self._ends_with_return = False
        if not found:
            return end
        match found[0]:
            case "\r":
                self._ends_with_return = True
            case "\x1b":
                self._state = self._after_escape
            case "\x9b":
                self._state = self._in_control_sequence
            case introducer if introducer in _C1_STRING_INTRODUCERS:
                self._state = self._in_string
        return end + 1

    def _after_escape(self, text: str, position: int, shown: list[str]) -> int:  # noqa: ARG002
        character = text[position]
        if character == "[":
            self._state = self._in_control_sequence
        elif character in _STRING_INTRODUCERS:
            self._state = self._in_string
        elif not " " <= character <= "/":  # those are followed by one more
            self._state = self._in_text
            if character == "\x1b" or not " " <= character <= "~":
                return position  # not the end of a sequence: it is looked at by itself
        return position + 1

    def _in_control_sequence(self, text: str, position: int, shown: list[str]) -> int:  # noqa: ARG002
        character = text[position]
        if " " <= character <= "?":
            return position + 1
        self._state = self._in_text
        return position + 1 if "@" <= character <= "~" else position

    def _in_string(self, text: str, position: int, shown: list[str]) -> int:  # noqa: ARG002
        character = text[position]
        if character in (_BELL, "\x9c", "\n"):
            # Real strings have no line end; one that is never closed must not hide everything.
            self._state = self._in_text
            return position if character == "\n" else position + 1
        if character == "\x1b":
            self._state = self._after_escape  # the backslash that follows ends both
        return position + 1


class PlainBytes:
    """The same for bytes, which may be cut within a character."""

    def __init__(self) -> None:
        """Start outside of any character and sequence."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._plain = PlainText()

    def feed(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return what of a piece may be shown."""
        return self._plain.feed(self._decoder.decode(data, is_last)).encode()


def without_controls(text: str) -> str:
    """Return a whole text plain."""
    return PlainText().feed(text)


def shown(text: str) -> str:
    """Return a text as it goes to standard output: plain on a terminal, as it is elsewhere."""
    return without_controls(text) if sys.stdout.isatty() else text


def escaped_json(text: str) -> str:
    """Return JSON that means the same, with what commands a terminal written as escapes."""
    # JSON itself escapes what is below a space, and has the others only within strings.
    return _UNWANTED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def has_controls(text: str) -> bool:
    """Say whether a text would command a terminal."""
    return _UNWANTED.search(text) is not None
