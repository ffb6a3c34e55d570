# SPDX-License-Identifier: Apache-2.0
"""Keeps what a model has to read at a bounded size. Knows no network."""

from collections import deque

from opensandbox.models.execd import OutputMessage

SHOWN = 32_000
"""How many characters of one stream, file or log a tool answers with at most."""
HALF = SHOWN // 2


class BoundedStream:
    """The beginning and the end of a stream of lines, whatever its length."""

    def __init__(self) -> None:
        """Start empty."""
        self.size = 0
        self._head: list[OutputMessage] = []
        self._head_size = 0
        self._tail: deque[OutputMessage] = deque()
        self._tail_size = 0

    def add(self, message: OutputMessage) -> None:
        """Take one line in; the middle of what is there may go."""
        self.size += len(message.text)
        message = message.model_copy(update={"text": cut_in_the_middle(message.text, HALF)})
        if not self._tail and self._head_size + len(message.text) <= HALF:
            self._head.append(message)
            self._head_size += len(message.text)
            return
        self._tail.append(message)
        self._tail_size += len(message.text)
        while self._tail_size > HALF and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft().text)

    @property
    def messages(self) -> list[OutputMessage]:
        """What is left to show."""
        return [*self._head, *self._tail]

    @property
    def is_cut(self) -> bool:
        """Whether anything is missing."""
        return sum(len(message.text) for message in self.messages) < self.size


def cut_in_the_middle(text: str, limit: int) -> str:
    """Return a text that is not much longer than ``limit``, its middle replaced by a remark."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text
    return f"{text[: limit // 2]} […{left_out} characters left out…] {text[-(limit // 2) :]}"


def decoded_page(content: bytes, offset: int) -> tuple[str, int]:
    """Return a page of bytes as text, and where the next begins; a character is never cut."""
    page = content[offset : offset + SHOWN]
    if offset + SHOWN < len(content):
        page = page[: _end_of_last_character(page)]
    return page.decode(errors="replace"), offset + len(page)


def _end_of_last_character(page: bytes) -> int:
    # A character of UTF-8 has at most four bytes; the first of them is not 0b10xxxxxx.
    for back in range(1, min(4, len(page)) + 1):
        byte = page[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needs = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
        return len(page) if needs <= back else len(page) - back
    return len(page)
