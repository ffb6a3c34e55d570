# SPDX-License-Identifier: Apache-2.0
"""IPython itself, which is what a notebook asks, finds every form of a result."""

import json
from base64 import b64encode
from typing import Any

from IPython.core.formatters import DisplayFormatter

from opensandbox._events import Fold, Kind
from opensandbox.models import ExecutionResult


def result_of(forms: dict[str, object]) -> ExecutionResult:
    """Return what the client makes of a result with these forms."""
    fold = Fold(Kind.CODE)
    fold.add({"type": "result", "results": forms, "timestamp": 1})
    return fold.finish().result[0]


def shown(result: ExecutionResult) -> dict[str, object]:
    """Return the forms that a notebook shows."""
    formatter: Any = DisplayFormatter()
    formatter.active_types = formatter.format_types
    data, _ = formatter.format(result)
    return dict(data)


def test_a_notebook_shows_what_there_is() -> None:
    picture = b"\x89PNG\r\n\x1a\n"
    forms: dict[str, object] = {
        "text": "words",
        "text/html": "<b>words</b>",
        "image/png": b64encode(picture).decode(),
        "image/svg+xml": "<svg/>",
        "application/json": {"a": [1]},
    }
    assert shown(result_of(forms)) == {
        "text/plain": "words",
        "text/html": "<b>words</b>",
        "image/png": picture,
        "image/svg+xml": "<svg/>",
        "application/json": {"a": [1]},
    }


def test_a_notebook_shows_nothing_more_than_there_is() -> None:
    assert shown(result_of({"text": "words"})) == {"text/plain": "words"}


def test_json_that_is_a_string_stays_one() -> None:
    result = result_of({"application/json": "12"})
    assert result.extra_properties == {"application/json": json.dumps("12")}
    assert result._repr_json_() == "12"
