# SPDX-License-Identifier: Apache-2.0
"""Code in a sandbox of the real server: contexts, handlers, and what goes wrong."""

from datetime import timedelta

import pytest

from code_interpreter import CodeContext, CodeInterpreter, SupportedLanguage
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxReadyTimeoutException,
)
from opensandbox.models import ExecutionHandlers, ExecutionInit, ExecutionResult, OutputMessage
from tests.harness.server import API_KEY, Server

pytestmark = pytest.mark.anyio


async def test_state_stays_in_its_context(interpreter: CodeInterpreter) -> None:
    codes = interpreter.codes
    first = await codes.create_context(SupportedLanguage.PYTHON)
    second = await codes.create_context("python")
    await codes.run("x = 20", context=first)
    execution = await codes.run("x + 22", context=first)
    assert [result.text for result in execution.result] == ["42"]
    assert execution.complete is not None
    assert execution.exit_code is None
    elsewhere = await codes.run("x", context=second)
    assert elsewhere.error is not None
    assert elsewhere.error.name == "NameError"
    assert elsewhere.complete is None


async def test_bash_keeps_its_variables(interpreter: CodeInterpreter) -> None:
    await interpreter.codes.run("x=20", language=SupportedLanguage.BASH)
    execution = await interpreter.codes.run("echo $((x + 22))", language="bash")
    assert execution.text == "42"
    failed = await interpreter.codes.run("exit 3", language="bash")
    assert failed.error is not None
    assert failed.error.value == "3"


async def test_code_without_a_language_is_python(interpreter: CodeInterpreter) -> None:
    await interpreter.codes.run("x = 1")
    assert (await interpreter.codes.run("x + 1", language="python")).result[0].text == "2"


async def test_contexts_are_listed_found_and_deleted(interpreter: CodeInterpreter) -> None:
    codes = interpreter.codes
    context = await codes.create_context("python")
    shell = await codes.create_context("bash")
    assert await codes.get_context(str(context.id)) == context
    assert await codes.list_contexts("python") == [context]
    assert {one.id for one in await codes.list_contexts()} == {context.id, shell.id}
    await codes.delete_context(str(context.id))
    with pytest.raises(SandboxApiException) as missing:
        await codes.get_context(str(context.id))
    assert missing.value.status_code == 404
    assert missing.value.error.code == "CONTEXT_NOT_FOUND"
    await codes.delete_contexts("bash")
    assert await codes.list_contexts() == []


async def test_a_context_has_a_directory_and_variables(interpreter: CodeInterpreter) -> None:
    context = await interpreter.codes.create_context(
        "python", working_directory="/tmp/made/for/it", envs={"GREETING": "hello"}
    )
    execution = await interpreter.codes.run(
        "import os; print(os.getcwd(), os.environ['GREETING'])", context=context
    )
    assert execution.text == "/tmp/made/for/it hello"


async def test_handlers_are_told_as_it_happens(interpreter: CodeInterpreter) -> None:
    reported: list[tuple[str, str | None]] = []

    async def on_init(init: ExecutionInit) -> None:
        reported.append(("init", init.id))

    async def on_stdout(message: OutputMessage) -> None:
        reported.append(("stdout", message.text))

    async def on_stderr(message: OutputMessage) -> None:
        reported.append(("stderr", message.text))

    async def on_result(result: ExecutionResult) -> None:
        reported.append(("result", result.text))

    handlers = ExecutionHandlers(
        on_init=on_init,
        on_stdout=on_stdout,
        on_stderr=on_stderr,
        on_result=on_result,
        skip_accumulation=True,
    )
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\n7"
    execution = await interpreter.codes.run(code, handlers=handlers)
    assert reported[0] == ("init", execution.id)
    assert ("stdout", "out\n") in reported
    assert ("stderr", "err\n") in reported
    assert reported[-1] == ("result", "7")
    assert execution.logs.stdout == []


async def test_code_that_is_interrupted_keeps_its_state(interpreter: CodeInterpreter) -> None:
    async def interrupt(message: OutputMessage) -> None:
        assert message.text == "here\n"
        await interpreter.codes.interrupt(str(context.id))

    context = await interpreter.codes.create_context("python")
    code = "x = 5\nprint('here', flush=True)\nwhile True: pass"
    handlers = ExecutionHandlers(on_stdout=interrupt)
    execution = await interpreter.codes.run(code, context=context, handlers=handlers)
    assert execution.error is not None
    assert execution.error.name == "KeyboardInterrupt"
    assert (await interpreter.codes.run("x", context=context)).result[0].text == "5"


async def test_code_is_ended_after_its_timeout(interpreter: CodeInterpreter) -> None:
    timeout = timedelta(milliseconds=200)
    execution = await interpreter.codes.run("while True: pass", timeout=timeout)
    assert execution.error is not None
    assert execution.error.name == "TimeoutError"


async def test_an_interpreter_that_dies_says_so(interpreter: CodeInterpreter) -> None:
    execution = await interpreter.codes.run("import os; os._exit(3)")
    assert execution.error is not None
    assert execution.error.name == "InterpreterDied"
    assert (await interpreter.codes.run("1 + 1")).result[0].text == "2"


async def test_what_cannot_be_meant_is_refused(interpreter: CodeInterpreter) -> None:
    context = CodeContext(language="bash")
    with pytest.raises(InvalidArgumentException, match="of bash, not python"):
        await interpreter.codes.run("true", language="python", context=context)
    with pytest.raises(InvalidArgumentException, match="blank"):
        await interpreter.codes.run(" \n")
    with pytest.raises(InvalidArgumentException, match="blank"):
        await interpreter.codes.create_context("")
    with pytest.raises(SandboxApiException) as unsupported:
        await interpreter.codes.create_context("cobol")
    assert unsupported.value.status_code == 501
    assert "cobol" in str(unsupported.value)


async def test_an_interpreter_is_a_sandbox_with_more(interpreter: CodeInterpreter) -> None:
    async with interpreter as same:
        assert same.id == interpreter.sandbox.id
        await same.files.write_file("/tmp/here", "kept")
        assert (await same.codes.run("print(open('/tmp/here').read())")).text == "kept"
        assert (await same.commands.run("cat /tmp/here")).text == "kept"
        assert await same.ping()
        assert await same.is_healthy()
    assert await interpreter.sandbox.is_healthy()


async def test_an_interpreter_has_no_health_without_its_sandbox(server: Server) -> None:
    config = ConnectionConfig(domain=server.domain, api_key=API_KEY)
    async with await Sandbox.create("host", connection_config=config) as sandbox:
        interpreter = await CodeInterpreter.create(sandbox)
        await sandbox.kill()
        assert not await interpreter.ping()
        assert not await interpreter.is_healthy()


async def test_an_interpreter_that_never_listens_is_not_ready(interpreter: CodeInterpreter) -> None:
    sandbox = interpreter.sandbox
    # A port beyond all ports stands for a server that does not come up. Of a sandbox that was not
    # made here nobody knows that it needs none.
    await sandbox.commands.set_env("JUPYTER_PORT", "99999")
    async with await Sandbox.connect(sandbox.id, sandbox.connection_config) as held:
        assert not await CodeInterpreter(held).is_healthy()
        with pytest.raises(SandboxReadyTimeoutException, match="does not listen yet"):
            await CodeInterpreter.create(held, ready_timeout=timedelta(milliseconds=300))
        await CodeInterpreter.create(held, skip_health_check=True)


async def test_an_interpreter_of_a_new_sandbox_needs_no_command(
    interpreter: CodeInterpreter,
) -> None:
    sandbox = interpreter.sandbox
    await sandbox.commands.set_env("JUPYTER_PORT", "99999")
    assert await interpreter.is_healthy()
    await CodeInterpreter.create(sandbox, ready_timeout=timedelta(milliseconds=300))
