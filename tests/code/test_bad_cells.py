# SPDX-License-Identifier: Apache-2.0
"""Cells that break what they can: each ends with a true event, and the context lives on."""

from collections.abc import Iterator

import pytest

from tests.code.cells import Context, made, results
from tests.execd.events import next_of
from tests.harness.execd import Daemon

MAX_FRAME = 4 << 20
"""The contract's bound: the smallest line buffer among the published clients."""

pytestmark = pytest.mark.timeout(300)  # the first cell of Go compiles the standard library

LARGE_ERROR = {
    "python": "raise ValueError('x' * {})",
    "javascript": "throw new Error('x'.repeat({}))",
    "java": 'throw new RuntimeException("x".repeat({}));',
    "go": 'panic(strings.Repeat("x", {}))',
}
ODD_ERROR = {
    "python": "raise ValueError('a\\x85b\\u2028c')",
    "javascript": "throw new Error('a\\x85b\\u2028c')",
    "java": 'throw new RuntimeException("a\\u0085b\\u2028c");',
    "go": 'panic("a\\u0085b\\u2028c")',
}
NO_NUMBER = {
    "python": "display({'application/json': {'n': [float('nan')]}}, raw=True)",
    "javascript": "await display({'application/json': {n: [NaN]}}, {raw: true})",
    "java": 'display(Map.of("application/json", Map.of("n", List.of(Double.NaN))));',
}
ENDLESS = {
    "python": "while True: pass",
    "javascript": "while (true) {}",
    "java": "while (true) {}",
    "go": "for {\n}",
}


@pytest.fixture(scope="module", params=["python", "javascript", "java", "go"])
def context(daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Context]:
    """Make a context in which cells go wrong one after another."""
    context = made(daemon.client, request.param)
    yield context
    context.delete()


def test_an_error_of_any_size_fits_into_one_event(context: Context) -> None:
    code = LARGE_ERROR[context.language].format(10_000_000)
    with context.running(code) as events:
        event = next_of(events, "error")
    assert event["error"]["evalue"].startswith("xxx")
    assert event["error"]["evalue"].endswith("more bytes)")
    assert len(str(event)) < MAX_FRAME


@pytest.mark.parametrize("language", ["python", "go"])
def test_an_error_that_is_too_large_to_keep_ends_its_cell(daemon: Daemon, language: str) -> None:
    context = made(daemon.client, language)
    error = context.failure(LARGE_ERROR[language].format(70_000_000))
    assert error["ename"] == "ErrorTooLarge"
    assert context.value("6 * 7") == "42"
    context.delete()


def test_an_error_with_line_separators_is_one_line(context: Context) -> None:
    body = {"code": ODD_ERROR[context.language], "context": {"id": context.id}}
    content = context.client.post("/code", json=body).content
    assert "\x85".encode() not in content, "clients take it for the end of a line"
    assert "\u2028".encode() not in content
    assert context.failure(ODD_ERROR[context.language])["evalue"] == "a\x85b\u2028c"


def test_numbers_that_json_does_not_have_are_null(context: Context) -> None:
    if context.language not in NO_NUMBER:
        error = context.failure('display(map[string]any{"application/json": math.NaN()})')
        assert "NaN" in error["evalue"]
    else:
        (shown,) = results(context.run(NO_NUMBER[context.language]))
        assert shown == {"application/json": {"n": [None]}}
    assert context.value("6 * 7") == "42"


def test_a_cell_is_interrupted_that_has_not_begun(context: Context) -> None:
    marks = {"python": "#", "javascript": "//", "java": "//", "go": "//"}
    long = f"{marks[context.language]} {'-' * 5_000_000}\n{ENDLESS[context.language]}"
    with context.running(long) as events:
        next_of(events, "init")
        assert context.interrupt().status_code == 200
        error = next_of(events, "error")["error"]
    assert (error["ename"], error["evalue"]) == ("KeyboardInterrupt", "")
    assert context.value("6 * 7") == "42"


def test_a_long_line_of_control_characters_comes_in_events_that_fit(daemon: Daemon) -> None:
    python = made(daemon.client, "python")
    with python.running(r"print('\0' * 3_000_000)") as events:
        texts = [event["text"] for event in events if event["type"] == "stdout"]
    assert "".join(texts) == "\0" * 3_000_000 + "\n"
    assert all(len(text) * len("\\u0000") < MAX_FRAME for text in texts)
    python.delete()


@pytest.mark.parametrize(
    "cell",
    [
        "const a = new Error()\nObject.defineProperty(a, 'message', {get() { throw 1 }})\nthrow a",
        "const b = new Error('x')\nb.name = {toString() { throw 1 }}\nthrow b",
        "const c = new Error('x')\nc.stack = {toString() { throw 1 }}\nthrow c",
        "throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})",
        "String.prototype.split = null; Array.prototype.filter = null; throw new Error('x')",
    ],
)
def test_whatever_javascript_throws_ends_the_cell(daemon: Daemon, cell: str) -> None:
    context = made(daemon.client, "javascript")
    assert context.failure(cell)["ename"]
    assert context.value("6 * 7") == "42"
    context.delete()


@pytest.mark.parametrize(
    "cell",
    [
        "JSON.stringify = JSON.parse = null; 42",
        "globalThis.Buffer = undefined; 42",
    ],
)
def test_javascript_may_replace_what_the_language_has(daemon: Daemon, cell: str) -> None:
    context = made(daemon.client, "javascript")
    assert context.value(cell) == "42"
    assert context.value("6 * 7") == "42"
    context.delete()


@pytest.mark.parametrize(
    "cell",
    [
        "System.setOut(new PrintStream(OutputStream.nullOutputStream()));",
        "class Bad extends RuntimeException { public String getMessage() { throw new Error(); } }\n"
        "throw new Bad();",
        "class Odd { public String toString() { return null; } }\nnew Odd()",
        f"{'(' * 3000}1{')' * 3000}",
    ],
)
def test_java_lives_on_after_code_that_jshell_fails_over(daemon: Daemon, cell: str) -> None:
    context = made(daemon.client, "java")
    context.run("int kept = 42;")
    context.run(cell)
    assert context.value("kept") == "42"
    context.delete()
