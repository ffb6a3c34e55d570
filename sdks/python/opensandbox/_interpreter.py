# SPDX-License-Identifier: Apache-2.0
"""A Python interpreter that lives in a sandbox and runs one piece of code after another.

Everything about how that is done is in this file.
"""

import secrets
import shlex
from datetime import timedelta

from opensandbox._sync.sandbox import SandboxSync
from opensandbox.exceptions import SandboxException
from opensandbox.models import Execution, ExecutionHandlersSync, RunCommandOpts

# A machine with much to do takes its time for this; one without Python would never be done.
_START_TIMEOUT = timedelta(seconds=30)

# What the relay says when there is nobody to relay to.
_GONE = 113

# Waits at a FIFO for the directory of the next piece of code, and writes what the code writes into
# FIFOs of that directory. It holds the one for the status while the code runs: should it die,
# whoever waits there sees the end.
_DRIVER = r"""
import ast, os, sys, traceback
home = sys.argv[1]
names = {"__name__": "__main__"}
def run(path):
    source = open(path).read()
    try:
        tree = ast.parse(source, "<code>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<code>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)
            if value is not None:
                print(repr(value))
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        return 1
with open(home + "/ready", "w") as ready:
    ready.write(str(os.getpid()))
while True:
    try:
        with open(home + "/control") as control:
            cell = control.readline().strip()
        with open(cell + "/status", "w") as status:
            for number, name in ((1, "/out"), (2, "/err")):
                end = os.open(cell + name, os.O_WRONLY)
                os.dup2(end, number)
                os.close(end)
            code = run(cell + "/code")
            try:
                sys.stdout.flush(); sys.stderr.flush()
            except OSError:
                pass
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1); os.dup2(silence, 2); os.close(silence)
            status.write(str(code % 256))
    except (KeyboardInterrupt, OSError):
        continue
"""

_RELAY = """
home={home}; pid=$(cat "$home/pid") && kill -0 "$pid" 2>/dev/null || exit {gone}
cell={cell}; mkdir -p "$cell"; mkfifo "$cell/out" "$cell/err" "$cell/status"
printf %s {code} > "$cell/code"
trap 'kill -INT "$pid"' TERM
cat "$cell/out" & cat "$cell/err" >&2 &
echo "$cell" > "$home/control"
read code < "$cell/status"
wait
rm -rf "$cell"
[ -n "$code" ] || {{ echo "the interpreter has ended" >&2; code=1; }}
exit "$code"
"""


class PythonInterpreter:
    """State that stays from one piece of Python code to the next. Starts when first used."""

    def __init__(self, sandbox: SandboxSync) -> None:
        """Live in a sandbox."""
        self._sandbox = sandbox
        self._home: str | None = None

    def run(self, code: str, handlers: ExecutionHandlersSync | None = None) -> Execution:
        """Run code; an interpreter that has died is replaced by an empty one first."""
        execution = self._relay(self._home or self._start(), code, handlers)
        if execution.exit_code == _GONE:
            execution = self._relay(self._start(), code, handlers)
        return execution

    def _start(self) -> str:
        home = f"/tmp/.opensandbox-python-{secrets.token_hex(8)}"
        files, commands = self._sandbox.files, self._sandbox.commands
        files.write_file(f"{home}/driver.py", _DRIVER)
        commands.run(["mkfifo", f"{home}/control", f"{home}/ready"])
        driver = ["python3", "-u", f"{home}/driver.py", home]
        started = commands.run(driver, opts=RunCommandOpts(background=True))
        said = commands.run(
            f"cat {home}/ready > {home}/pid", opts=RunCommandOpts(timeout=_START_TIMEOUT)
        )
        if started.error or said.exit_code != 0:
            problem = started.error.value if started.error else str(said)
            raise SandboxException(
                f"Python does not start in this sandbox: {problem}; choose an image with python3"
            )
        self._home = home
        return home

    def _relay(self, home: str, code: str, handlers: ExecutionHandlersSync | None) -> Execution:
        text = _RELAY.format(
            home=shlex.quote(home),
            gone=_GONE,
            cell=shlex.quote(f"{home}/{secrets.token_hex(8)}"),
            code=shlex.quote(code),
        )
        return self._sandbox.commands.run(text, handlers=handlers)
