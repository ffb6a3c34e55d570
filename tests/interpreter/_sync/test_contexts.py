# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_contexts.py by scripts/unasync.py; change it there.
"""Code in a sandbox of the real server: contexts, handlers, and what goes wrong."""

from datetime import timedelta

import pytest

from code_interpreter import CodeContext, CodeInterpreterSync, SupportedLanguage
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxReadyTimeoutException,
)
from opensandbox.models import ExecutionHandlersSync, ExecutionInit, ExecutionResult, OutputMessage
from tests.harness.server import API_KEY, Server


def test_state_stays_in_its_context(interpreter: CodeInterpreterSync) -> None:
    codes = interpreter.codes
    first = codes.create_context(SupportedLanguage.PYTHON)
    second = codes.create_context("python")
    codes.run("x = 20", context=first)
    execution = codes.run("x + 22", context=first)
    assert [result.text for result in execution.result] == ["42"]
    assert execution.complete is not None
    assert execution.exit_code is None
    elsewhere = codes.run("x", context=second)
    assert elsewhere.error is not None
    assert elsewhere.error.name == "NameError"
    assert elsewhere.complete is None


def test_bash_keeps_its_variables(interpreter: CodeInterpreterSync) -> None:
    interpreter.codes.run("x=20", language=SupportedLanguage.BASH)
    execution = interpreter.codes.run("echo $((x + 22))", language="bash")
    assert execution.text == "42"
    failed = interpreter.codes.run("exit 3", language="bash")
    assert failed.error is not None
    assert failed.error.value == "3"


def test_code_without_a_language_is_python(interpreter: CodeInterpreterSync) -> None:
    interpreter.codes.run("x = 1")
    assert (interpreter.codes.run("x + 1", language="python")).result[0].text == "2"


def test_contexts_are_listed_found_and_deleted(interpreter: CodeInterpreterSync) -> None:
    codes = interpreter.codes
    context = codes.create_context("python")
    shell = codes.create_context("bash")
    assert codes.get_context(str(context.id)) == context
    assert codes.list_contexts("python") == [context]
    assert {one.id for one in codes.list_contexts()} == {context.id, shell.id}
    codes.delete_context(str(context.id))
    with pytest.raises(SandboxApiException) as missing:
        codes.get_context(str(context.id))
    assert missing.value.status_code == 404
    assert missing.value.error.code == "CONTEXT_NOT_FOUND"
    codes.delete_contexts("bash")
    assert codes.list_contexts() == []


def test_a_context_has_a_directory_and_variables(interpreter: CodeInterpreterSync) -> None:
    context = interpreter.codes.create_context(
        "python", working_directory="/tmp/made/for/it", envs={"GREETING": "hello"}
    )
    execution = interpreter.codes.run(
        "import os; print(os.getcwd(), os.environ['GREETING'])", context=context
    )
    assert execution.text == "/tmp/made/for/it hello"


def test_handlers_are_told_as_it_happens(interpreter: CodeInterpreterSync) -> None:
    reported: list[tuple[str, str | None]] = []

    def on_init(init: ExecutionInit) -> None:
        reported.append(("init", init.id))

    def on_stdout(message: OutputMessage) -> None:
        reported.append(("stdout", message.text))

    def on_stderr(message: OutputMessage) -> None:
        reported.append(("stderr", message.text))

    def on_result(result: ExecutionResult) -> None:
        reported.append(("result", result.text))

    handlers = ExecutionHandlersSync(
        on_init=on_init,
        on_stdout=on_stdout,
        on_stderr=on_stderr,
        on_result=on_result,
        skip_accumulation=True,
    )
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\n7"
    execution = interpreter.codes.run(code, handlers=handlers)
    assert reported[0] == ("init", execution.id)
    assert ("stdout", "out\n") in reported
    assert ("stderr", "err\n") in reported
    assert reported[-1] == ("result", "7")
    assert execution.logs.stdout == []


def test_code_that_is_interrupted_keeps_its_state(interpreter: CodeInterpreterSync) -> None:
    def interrupt(message: OutputMessage) -> None:
        assert message.text == "here\n"
        interpreter.codes.interrupt(str(context.id))

    context = interpreter.codes.create_context("python")
    code = "x = 5\nprint('here', flush=True)\nwhile True: pass"
    handlers = ExecutionHandlersSync(on_stdout=interrupt)
    execution = interpreter.codes.run(code, context=context, handlers=handlers)
    assert execution.error is not None
    assert execution.error.name == "KeyboardInterrupt"
    assert (interpreter.codes.run("x", context=context)).result[0].text == "5"


def test_code_is_ended_after_its_timeout(interpreter: CodeInterpreterSync) -> None:
    timeout = timedelta(milliseconds=200)
    execution = interpreter.codes.run("while True: pass", timeout=timeout)
    assert execution.error is not None
    assert execution.error.name == "TimeoutError"


def test_an_interpreter_that_dies_says_so(interpreter: CodeInterpreterSync) -> None:
    execution = interpreter.codes.run("import os; os._exit(3)")
    assert execution.error is not None
    assert execution.error.name == "InterpreterDied"
    assert (interpreter.codes.run("1 + 1")).result[0].text == "2"


def test_what_cannot_be_meant_is_refused(interpreter: CodeInterpreterSync) -> None:
    context = CodeContext(language="bash")
    with pytest.raises(InvalidArgumentException, match="of bash, not python"):
        interpreter.codes.run("true", language="python", context=context)
    with pytest.raises(InvalidArgumentException, match="blank"):
        interpreter.codes.run(" \n")
    with pytest.raises(InvalidArgumentException, match="blank"):
        interpreter.codes.create_context("")
    with pytest.raises(SandboxApiException) as unsupported:
        interpreter.codes.create_context("cobol")
    assert unsupported.value.status_code == 501
    assert "cobol" in str(unsupported.value)


def test_an_interpreter_is_a_sandbox_with_more(interpreter: CodeInterpreterSync) -> None:
    with interpreter as same:
        assert same.id == interpreter.sandbox.id
        same.files.write_file("/tmp/here", "kept")
        assert (same.codes.run("print(open('/tmp/here').read())")).text == "kept"
        assert (same.commands.run("cat /tmp/here")).text == "kept"
        assert same.ping()
        assert same.is_healthy()
    assert interpreter.sandbox.is_healthy()


def test_an_interpreter_has_no_health_without_its_sandbox(server: Server) -> None:
    config = ConnectionConfigSync(domain=server.domain, api_key=API_KEY)
    with SandboxSync.create("host", connection_config=config) as sandbox:
        interpreter = CodeInterpreterSync.create(sandbox)
        sandbox.kill()
        assert not interpreter.ping()
        assert not interpreter.is_healthy()


def test_an_interpreter_that_never_listens_is_not_ready(interpreter: CodeInterpreterSync) -> None:
    sandbox = interpreter.sandbox
    # A port beyond all ports stands for a server that does not come up. Of a sandbox that was not
    # made here nobody knows that it needs none.
    sandbox.commands.set_env("JUPYTER_PORT", "99999")
    with SandboxSync.connect(sandbox.id, sandbox.connection_config) as held:
        assert not CodeInterpreterSync(held).is_healthy()
        with pytest.raises(SandboxReadyTimeoutException, match="does not listen yet"):
            CodeInterpreterSync.create(held, ready_timeout=timedelta(milliseconds=300))
        CodeInterpreterSync.create(held, skip_health_check=True)


def test_an_interpreter_of_a_new_sandbox_needs_no_command(
    interpreter: CodeInterpreterSync,
) -> None:
    sandbox = interpreter.sandbox
    sandbox.commands.set_env("JUPYTER_PORT", "99999")
    assert interpreter.is_healthy()
    CodeInterpreterSync.create(sandbox, ready_timeout=timedelta(milliseconds=300))
