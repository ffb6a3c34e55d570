# SPDX-License-Identifier: Apache-2.0
"""Interrupts at random moments: the cell ends, and nothing of the state is lost.

``INTERRUPTS=1000`` asks for that many in each language, ``SEED`` repeats an earlier run.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest

from tests.code.cells import Context, first_context, forked_context, made
from tests.code.test_jupyter import run_daemon_with_kernels
from tests.execd.events import Event, next_of
from tests.harness.execd import Daemon

LATEST_SECONDS = 0.15
"""How late after its cell an interrupt comes, at most; most moments are far earlier."""
RETRY_SECONDS = 0.5
"""When an interrupt is repeated: it may have come before its cell did."""
ROUNDS = 12

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
INTERRUPTS = int(os.environ.get("INTERRUPTS", "0"))

pytestmark = pytest.mark.timeout(300 + 10 * INTERRUPTS)


@dataclass(frozen=True)
class Language:
    """What is interrupted in one language, and how its state is told from a new one."""

    name: str
    prepare: str
    endless: list[str]
    """Cells that end only when they are interrupted."""
    brief: list[str]
    """Cells that may end by themselves before."""
    show: str
    """Prints kept, from the state that prepare has left."""
    rounds: int = ROUNDS
    contexts: Callable[[Daemon], AbstractContextManager[Context]] | None = None
    """Makes the context; a plain one unless said."""
    renewed: int = 0
    """After how many interrupts the context is made again; 0: never."""


def _first(_: Daemon) -> AbstractContextManager[Context]:
    return first_context()


PYTHON = Language(
    name="python",
    prepare="x = 'kept'",
    endless=[
        "import time; time.sleep(1000)",
        "while True: pass",
        "while True: print('y' * 99)",
        "while True: str(object())",
    ],
    brief=["import time; time.sleep(0.05)", "sum(range(10**6))", "x", "print('brief')"],
    show="print(x)",
)
SHELL_OF_PYTHON = Language(
    **{
        **PYTHON.__dict__,
        "endless": [
            *PYTHON.endless,
            "import asyncio; await asyncio.sleep(1000)",
            "import asyncio\nwhile True: await asyncio.sleep(0)",
            "while True: display(x)",
            "!sleep 1000",
        ],
        "brief": [*PYTHON.brief, "missing", "display(x)", "import asyncio; await asyncio.sleep(0)"],
        "contexts": forked_context,
    }
)
BASH = Language(
    name="bash",
    prepare="export x=kept; mkdir -p here && cd here",
    endless=["sleep 1000", "while :; do :; done", "while :; do echo yyyyyyyy; done"],
    brief=["sleep 0.05", "echo brief", "false"],
    show='[ "${PWD##*/}" = here ] && echo $x',
)
JAVASCRIPT = Language(
    name="javascript",
    prepare="let x = 'kept'",
    endless=[
        "await new Promise(() => {})",
        "await new Promise((done) => setTimeout(done, 1e6))",
        "while (true) {}",
        "while (true) await null",
        "while (true) await new Promise((done) => setTimeout(done, 1))",
        "while (true) console.log('y'.repeat(99))",
        "while (true) [].concat({}).map(String)",
        "while (true) await display(x)",
        "await new Promise(() => process.nextTick(() => { for (;;); }))",
    ],
    brief=[
        "await new Promise((done) => setTimeout(done, 50))",
        "{ const begin = Date.now(); while (Date.now() < begin + 50); }",
        "require('child_process').execSync('sleep 0.05')",
        "x",
        "throw new Error('brief')",
        "console.log('brief')",
    ],
    show="console.log(x)",
)
HOOKED_JAVASCRIPT = Language(
    **{
        **JAVASCRIPT.__dict__,
        "prepare": "let x = 'kept'; require('async_hooks').createHook({ init() {} }).enable()",
        "endless": ["while (true) await null"],
        "rounds": 2 * ROUNDS,
    }
)
TYPESCRIPT = Language(
    **{**JAVASCRIPT.__dict__, "name": "typescript", "prepare": "let x: string = 'kept'"}
)
JAVA = Language(
    name="java",
    prepare='String x = "kept";',
    endless=[
        "Thread.sleep(1000000);",
        "while (true) {}",
        'while (true) { System.out.println("y".repeat(99)); }',
        'while (true) { display(Map.of("text/plain", x)); }',
    ],
    brief=["Thread.sleep(50);", "x", "int[] a = new int[0]; a[1] = 0;"],
    show="System.out.println(x);",
)
GO = Language(
    name="go",
    prepare='x := "kept"',
    endless=[
        "select {}",
        "for {\n}",
        'for {\n\tfmt.Println("yyyyyyyy")\n}',
        "y := 1\nfor {\n\tz := y\n\ty = z\n}",
        'for {\n\tdisplay(map[string]any{"text/plain": x})\n}',
    ],
    brief=["time.Sleep(50 * time.Millisecond)", "x", 'y := "brief"', 'panic("brief")'],
    show="fmt.Println(x)",
    rounds=3,
)
LANGUAGES = {
    "python-first": Language(
        **{**PYTHON.__dict__, "contexts": _first, "renewed": 3, "rounds": ROUNDS // 2}
    ),
    "python": SHELL_OF_PYTHON,
    "bash": BASH,
    "javascript": JAVASCRIPT,
    "javascript-hooked": HOOKED_JAVASCRIPT,
    "typescript": TYPESCRIPT,
    "java": JAVA,
    "go": GO,
}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """Each language in turn."""
    return LANGUAGES[request.param]


def test_an_interrupt_at_any_moment_keeps_the_state(daemon: Daemon, language: Language) -> None:
    _interrupt_often(daemon, language)


@pytest.mark.parametrize("mode", ["signal", "message"])
def test_an_interrupt_of_a_kernel_at_any_moment_keeps_the_state(
    tmp_path_factory: pytest.TempPathFactory, mode: str
) -> None:
    kernel = Language(**{**PYTHON.__dict__, "name": f"by-{mode}", "rounds": ROUNDS // 2})
    with run_daemon_with_kernels(tmp_path_factory) as daemon:
        _interrupt_often(daemon, kernel)


def _interrupt_often(daemon: Daemon, language: Language) -> None:
    print(f"SEED={SEED}")
    chance = random.Random(f"{SEED} {language.name}")
    left = INTERRUPTS or language.rounds
    while left > 0:
        rounds = min(left, language.renewed or left)
        with (language.contexts or _plain(language))(daemon) as context:
            assert context.run(language.prepare).error is None
            for _ in range(rounds):
                _interrupt_once(context, language, chance)
        left -= rounds


def _plain(language: Language) -> Callable[[Daemon], AbstractContextManager[Context]]:
    @contextmanager
    def making(daemon: Daemon) -> Iterator[Context]:
        context = made(daemon.client, language.name)
        yield context
        context.delete()

    return making


def _interrupt_once(context: Context, language: Language, chance: random.Random) -> None:
    """Interrupt a cell at some moment, from before it is given to after its end."""
    cell = chance.choice(language.endless if chance.random() < 0.6 else language.brief)
    moment = LATEST_SECONDS * chance.random() ** 3
    errors: list[Event | None] = []
    running = threading.Thread(target=lambda: errors.append(context.run(cell).error))
    running.start()
    time.sleep(moment)
    context.interrupt()
    running.join(RETRY_SECONDS)
    while running.is_alive():
        context.interrupt()
        running.join(RETRY_SECONDS)
    what = f"{cell!r} interrupted after {moment:.6f} s: {errors}"
    context.interrupt()  # of nothing
    shown = context.run(language.show)
    assert shown.error is None, f"{what}, then {shown.error}"
    assert "kept\n" in "".join(shown.stdout), f"{what}, then {shown.events}"


def test_a_cell_that_waits_for_nothing_outlives_the_collection_of_garbage(daemon: Daemon) -> None:
    context = made(daemon.client, "javascript")
    context.run("require('v8').setFlagsFromString('--expose-gc')")
    context.run("const x = 'kept', collect = require('vm').runInNewContext('gc')")
    for _ in range(2):
        timer = "setTimeout(() => { collect(); console.log('collected') }, 1)"
        with context.running(f"{timer}; await new Promise(() => {{}})") as events:
            next_of(events, "stdout")
            assert context.interrupt().status_code == 200
            assert next_of(events, "error")["error"]["ename"] == "KeyboardInterrupt"
        context.run("collect()")
    assert context.value("x") == "'kept'"
    context.delete()
