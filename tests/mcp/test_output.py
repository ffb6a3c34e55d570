# SPDX-License-Identifier: Apache-2.0
"""What a model has to read stays bounded, and nothing is cut in the middle of a character."""

import pytest

from opensandbox.models.execd import OutputMessage
from opensandbox_mcp.contents import image_type, text_of
from opensandbox_mcp.output import HALF, SHOWN, BoundedStream, cut_in_the_middle, decoded_page


def stream_of(*texts: str) -> BoundedStream:
    stream = BoundedStream()
    for text in texts:
        stream.add(OutputMessage(text=text, timestamp=0))
    return stream


def test_short_output_is_kept_whole() -> None:
    stream = stream_of("a", "b", "")
    assert [message.text for message in stream.messages] == ["a", "b", ""]
    assert not stream.is_cut


def test_the_beginning_and_the_end_of_long_output_are_kept() -> None:
    stream = stream_of(*(f"{number:09}" for number in range(100_000)))
    shown = [message.text for message in stream.messages]
    assert (shown[0], shown[-1]) == ("000000000", "000099999")
    assert sum(map(len, shown)) <= SHOWN
    assert (stream.is_cut, stream.size) == (True, 900_000)


def test_output_of_exactly_the_limit_is_not_cut() -> None:
    stream = stream_of("x" * HALF, "y" * HALF)
    assert not stream.is_cut
    assert stream_of("x" * HALF, "y" * HALF, "z").is_cut


def test_a_long_line_says_how_much_is_left_out() -> None:
    cut = cut_in_the_middle("a" * 100 + "b" * 100, 50)
    assert cut == f"{'a' * 25} […150 characters left out…] {'b' * 25}"
    assert cut_in_the_middle("short", 50) == "short"


@pytest.mark.parametrize("character", ["a", "ä", "€", "😀"])
@pytest.mark.parametrize("before", range(4))
def test_pages_join_to_the_whole(character: str, before: int) -> None:
    content = ("." * before + character * SHOWN).encode()
    whole, offset = "", 0
    while offset < len(content):
        page, following = decoded_page(content, offset)
        assert following > offset
        whole, offset = whole + page, following
    assert whole == content.decode()


def test_bytes_that_are_no_text_make_progress_too() -> None:
    content = b"\x80" * (2 * SHOWN + 5)
    _, offset = decoded_page(content, 0)
    assert offset == SHOWN


def test_reading_on_begins_behind_the_last_whole_character() -> None:
    half = text_of("/f", "aä".encode()[:2], "utf-8", range_header="bytes=10-", has_more=True)
    assert half.content == "a"
    assert 'range_header="bytes=11-"' in (half.note or "")
    other = text_of("/f", b"abc", "utf-8", range_header="bytes=-500", has_more=True)
    assert "smaller" in (other.note or "")


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x0a\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x0a\x00\x00\x00WAVE", None),
        (b"", None),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(beginning: bytes, kind: str | None) -> None:
    assert image_type(beginning) == kind
