# SPDX-License-Identifier: Apache-2.0
"""What every language must do, written once and run in each."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.code.cells import Context, made, output, results
from tests.execd.events import next_of
from tests.harness.execd import Daemon


@dataclass(frozen=True)
class Language:
    """The same cells in one language. What a language has no word for is empty."""

    name: str
    assign: str
    """Sets x to 20."""
    add: str
    """Is, or for Bash prints, x + 22."""
    print_text: str
    """Prints grüße 😀."""
    mistake: str
    """Uses a name that does not exist."""
    mistakes_name: str
    syntax_error: str
    throw: str
    thrown_name: str
    loop: str
    """Prints up, then computes without end."""
    wait: str
    """Prints up, then waits without end."""
    lines: str
    """Prints 200,000 lines of 100 bytes."""
    die: str
    """Ends the interpreter with status 3."""
    read: str
    """Reads standard input to its end and prints over."""
    where: str
    """Prints the working directory, a space and the variable GREETING."""
    throw_deep: str
    """Fails with bad in a function called deep."""
    trace: tuple[str, ...]
    """What the traceback of that tells, in this order."""
    show: str = ""
    """Prints a, displays the HTML <b>x</b>, prints b."""
    keeps_state: bool = True
    """An interrupt leaves variables as they are."""


PYTHON = Language(
    name="python",
    assign="x = 20",
    add="x + 22",
    print_text="print('grüße 😀')",
    mistake="missing",
    mistakes_name="NameError",
    syntax_error="x = = 1",
    throw="raise ValueError('bad')",
    thrown_name="ValueError",
    loop="print('up', flush=True)\nwhile True: pass",
    wait="print('up', flush=True)\nimport time; time.sleep(1000)",
    lines="for i in range(200_000): print('y' * 99)",
    die="import os; os._exit(3)",
    read="import sys; sys.stdin.read(); print('over')",
    where="import os; print(os.getcwd(), os.environ['GREETING'])",
    throw_deep="def deep(): raise ValueError('bad')\ndeep()",
    trace=("----> 2 deep()", "in deep()", "ValueError: bad"),
    show="print('a'); display({'text/html': '<b>x</b>'}, raw=True); print('b')",
)
BASH = Language(
    name="bash",
    assign="x=20",
    add="echo $((x + 22))",
    print_text="echo 'grüße 😀'",
    mistake="missing-program",
    mistakes_name="CommandExecError",
    syntax_error="if; then",
    throw="exit 7",
    thrown_name="CommandExecError",
    loop="echo up; while :; do :; done",
    wait="echo up; sleep 1000",
    lines="yes $(printf 'y%.0s' {1..99}) | head -n 200000",
    die="exit 3",
    read="cat; echo over",
    where="echo $PWD $GREETING",
    throw_deep="deep() { return 7; }\ndeep",
    trace=("exit status 7",),
    keeps_state=False,
)
JAVASCRIPT = Language(
    name="javascript",
    assign="let x = 20",
    add="x + 22",
    print_text="console.log('grüße 😀')",
    mistake="missing",
    mistakes_name="ReferenceError",
    syntax_error="let = = 1",
    throw="throw new RangeError('bad')",
    thrown_name="RangeError",
    loop="console.log('up'); while (true) {}",
    wait="console.log('up'); await new Promise(() => {})",
    lines="for (let i = 0; i < 200_000; i++) console.log('y'.repeat(99))",
    die="process.exit(3)",
    read="require('fs').readFileSync(0); console.log('over')",
    where="console.log(process.cwd(), process.env.GREETING)",
    throw_deep="function deep() { throw new RangeError('bad') }\ndeep()",
    trace=("RangeError: bad", "at deep (cell-", ":2:1"),
    show="console.log('a'); await display({'text/html': '<b>x</b>'}, {raw: true})\n"
    "console.log('b')",
)
TYPESCRIPT = Language(
    **{
        **JAVASCRIPT.__dict__,
        "name": "typescript",
        "assign": "interface Named { name: string }\nlet x: number = 20",
        "add": "const add = (by: number): number => x + by\nadd(22)",
        "syntax_error": "let y: number = ;",
    }
)
JAVA = Language(
    name="java",
    assign="int x = 20;",
    add="x + 22",
    print_text='System.out.println("grüße 😀");',
    mistake="missing",
    mistakes_name="CompilationError",
    syntax_error="int y = ;",
    throw='throw new IllegalStateException("bad");',
    thrown_name="java.lang.IllegalStateException",
    loop='System.out.println("up"); while (true) {}',
    wait='System.out.println("up"); Thread.sleep(1000000);',
    lines='for (int i = 0; i < 200000; i++) { System.out.println("y".repeat(99)); }',
    die="System.exit(3);",
    read='System.in.readAllBytes(); System.out.println("over");',
    where='System.out.println(Path.of("").toAbsolutePath() + " " + System.getenv("GREETING"));',
    throw_deep='void deep() { throw new IllegalStateException("bad"); }\ndeep();',
    trace=("java.lang.IllegalStateException: bad", "at .deep(#", "at .(#"),
    show='System.out.println("a"); display(Map.of("text/html", "<b>x</b>"));\n'
    'System.out.println("b");',
)
GO = Language(
    name="go",
    assign="x := 20",
    add="x + 22",
    print_text='fmt.Println("grüße 😀")',
    mistake="missing",
    mistakes_name="CompilationError",
    syntax_error="x := = 1",
    throw='panic("bad")',
    thrown_name="panic",
    loop='fmt.Println("up")\nfor {\n}',
    wait='fmt.Println("up")\nselect {}',
    lines='line := strings.Repeat("y", 99)\nfor range 200_000 {\n\tfmt.Println(line)\n}',
    die="os.Exit(3)",
    read='io.ReadAll(os.Stdin)\nfmt.Println("over")',
    where='here, _ := os.Getwd()\nfmt.Println(here, os.Getenv("GREETING"))',
    throw_deep='func deep() { panic("bad") }\ndeep()',
    trace=("panic: bad", ":1", ":2"),
    show='fmt.Println("a")\ndisplay(map[string]any{"text/html": "<b>x</b>"})\nfmt.Println("b")',
)
pytestmark = pytest.mark.timeout(300)  # the first cell of Go compiles the standard library

LANGUAGES = [PYTHON, BASH, JAVASCRIPT, TYPESCRIPT, JAVA, GO]


@pytest.fixture(scope="module", params=LANGUAGES, ids=lambda language: str(language.name))
def language(request: pytest.FixtureRequest) -> Language:
    """Each language in turn; all tests of one come together."""
    chosen: Language = request.param
    return chosen


@pytest.fixture(scope="module")
def shared(daemon: Daemon, language: Language) -> Context:
    """Make a context for tests that leave nothing behind."""
    return made(daemon.client, language.name)


@pytest.fixture
def context(daemon: Daemon, language: Language) -> Iterator[Context]:
    """Make a context for one test."""
    context = made(daemon.client, language.name)
    yield context
    daemon.client.delete(f"/code/contexts/{context.id}")


def _value(context: Context, language: Language, code: str) -> str:
    if language is BASH:
        return context.out(code).strip()
    return context.value(code)


def test_state_stays_and_the_last_value_is_told(shared: Context, language: Language) -> None:
    assert shared.run(language.assign).error is None
    execution = shared.run(language.add)
    assert execution.error is None
    if language is BASH:
        assert execution.stdout == ["42\n"]
    else:
        assert results(execution) == [{"text": "42"}]
        assert [event["type"] for event in execution.events if event["type"] != "ping"] == [
            "init",
            "execution_count",
            "result",
            "execution_complete",
        ]


def test_unicode_passes_through(shared: Context, language: Language) -> None:
    assert shared.out(language.print_text) == "grüße 😀\n"


def test_a_value_is_unicode_too(shared: Context, language: Language) -> None:
    if language is BASH:
        pytest.skip("bash has no values")
    assert "grüße 😀" in shared.value('"grüße 😀"')


def test_an_error_has_the_languages_name(shared: Context, language: Language) -> None:
    assert shared.failure(language.mistake)["ename"] == language.mistakes_name
    assert shared.failure(language.throw)["ename"] == language.thrown_name


def test_a_traceback_leads_to_the_code(shared: Context, language: Language) -> None:
    trace = "\n".join(shared.failure(language.throw_deep)["traceback"])
    at = [trace.find(part) for part in language.trace]
    assert -1 not in at, trace
    assert at == sorted(at), trace
    assert "runner" not in trace, trace


def test_a_context_has_its_own_directory_and_variables(daemon: Daemon, language: Language) -> None:
    home = f"{daemon.workdir}/of {language.name}"
    envs = {"GREETING": "grüße"}
    context = made(daemon.client, language.name, cwd=home, envs=envs)
    assert context.out(language.where) == f"{home} grüße\n"
    context.delete()


def test_a_syntax_error_is_an_error(shared: Context, language: Language) -> None:
    error = shared.failure(language.syntax_error)
    assert error["ename"]
    assert error["evalue"]


def test_an_empty_cell_does_nothing(shared: Context, language: Language) -> None:
    assert shared.run("" if language is not BASH else "true").error is None


def test_a_lot_of_output_arrives(shared: Context, language: Language) -> None:
    assert len(shared.out(language.lines)) == 20_000_000


def test_standard_input_is_empty(shared: Context, language: Language) -> None:
    assert shared.out(language.read).endswith("over\n")


def test_what_is_shown_is_in_order_with_what_is_printed(
    shared: Context, language: Language
) -> None:
    if not language.show:
        pytest.skip(f"{language.name} has nothing but text")
    execution = shared.run(language.show)
    assert [kind for kind, _ in output(execution)] == ["stdout", "result", "stdout"]
    assert results(execution) == [{"text/html": "<b>x</b>"}]


def test_a_display_of_javascript_can_be_updated(daemon: Daemon) -> None:
    context = made(daemon.client, "javascript")
    cell = "await display(1, {display_id: 'a'}); await display(2, {display_id: 'a', update: true})"
    first, second = [event for event in context.run(cell).events if event["type"] == "result"]
    assert first["display_id"] == second["display_id"] == "a"
    assert "update" not in first
    assert second["update"] is True
    context.delete()


@pytest.mark.parametrize("kind", ["loop", "wait"])
def test_an_interrupt_ends_a_cell(context: Context, language: Language, kind: str) -> None:
    context.run(language.assign)
    with context.running(getattr(language, kind)) as events:
        assert next_of(events, "stdout")["text"] == "up\n"
        assert context.interrupt().status_code == 200
        error = next_of(events, "error")["error"]
    if language.keeps_state:
        assert error["ename"] == "KeyboardInterrupt"
        assert _value(context, language, language.add) == "42"
    else:
        assert _value(context, language, language.assign + "; " + language.add) == "42"


def test_a_timeout_ends_a_cell(context: Context, language: Language) -> None:
    context.run(language.assign)
    assert context.failure(language.wait, timeout=3000)["ename"] == "TimeoutError"


def test_contexts_are_independent_and_run_in_parallel(
    daemon: Daemon, context: Context, language: Language
) -> None:
    other = made(daemon.client, language.name)
    context.run(language.assign)
    with context.running(language.wait) as events:
        next_of(events, "stdout")
        if language is BASH:
            assert other.out("echo [$x]") == "[]\n"
        else:
            assert other.run(language.add).error is not None
        assert other.out(language.print_text) == "grüße 😀\n"
        context.interrupt()
        assert next_of(events, "error")
    other.delete()


def test_an_interpreter_that_ends_is_told_and_replaced(
    context: Context, language: Language
) -> None:
    error = context.failure(language.die)
    if language is BASH:
        assert error["evalue"] == "3"
    else:
        assert error["ename"] == "InterpreterDied"
        assert "exit status 3" in error["evalue"]
    assert context.out(language.print_text) == "grüße 😀\n"


def test_a_context_is_deleted_while_it_runs(context: Context, language: Language) -> None:
    with context.running(language.loop) as events:
        next_of(events, "stdout")
        context.delete()
        assert next_of(events, "error")["error"]["ename"] == "ContextDeleted"
