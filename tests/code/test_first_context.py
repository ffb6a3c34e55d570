# SPDX-License-Identifier: Apache-2.0
"""The first Python context begins without IPython; nobody can tell it from those that follow.

Each program runs in the first context of a daemon and in a context forked from the warmed parent.
"""

import json
import re
from pathlib import Path

import pytest

from tests.code.cells import Context, first_context, forked_context, results
from tests.execd.events import Event, next_of
from tests.harness.execd import Daemon

PLAIN = [
    "1 + 1",
    "True, None, 2.5, -0.0, float('nan'), 1e300, 10**20",
    "'it\\'s', \"two\", 'line\\nfeed', '\\u2028 \\x85 \\ud83d\\ude00'",
    "'x' * 999",
    "[[], (), {}, (1,), {'a': [1, {'b': 2}]}, b'bytes']",
    "None",
    "x = 3",
    "x = 3\nx",
    "[i for i in range(3)][::-1] if (n := 2) else 0",
    "\n\n    import sys\n    print(sys.version_info.major)\n    result = 2 + 2\n    result\n",
    "print('out')\nprint('half', end='')",
    "sys.stderr.write('err\\n')",
    "# only a comment",
    "",
    "import math, os",
    "os.environ['OWN'] = 'x'\nos.environ['OWN'], os.environ['MPLBACKEND'], os.getcwd()[:1]",
    "from datetime import date\nstr(date(2020, 1, 2))",
    "class P:\n    def __init__(self, x): self._x = x\n    def twice(self): return self._x * 2",
    "P(4).twice()",
    "match [1, 2]:\n    case [a, b]: print(a + b)",
    "import functools\n@functools.lru_cache\ndef f(n): return n < 2 or f(n - 1) + f(n - 2)\nf(30)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(repr(error))",
    "__name__",
]
VALUES = [
    "10**5000",
    "'x' * 3000",
    "'\\ud800'",
    "3j, ...",
    "list(range(100))",
    "{'key ' + str(i): 'value' for i in range(20)}",
    "{3, 1, 2}, frozenset()",
    "x = [1]\nx.append(x)\nx",
    "range(3), print, int, type",
    "x = 3; x;",
    "4  # a comment; with a semicolon",
]
FAILURES = [
    "1 / 0",
    "missing",
    "def f(x):\n    return x / 0\n\nprint('before')\nf(1)",
    "import json\njson.loads('{')",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('two') from error",
    "class Own(Exception):\n    def __str__(self): return 'mine'\nraise Own",
    "class Bad(Exception):\n    def __str__(self): raise TypeError\nraise Bad",
    "import sys\nsys.exit(3)",
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "raise StopIteration(1)",
    "assert 1 == 2, 'not'",
    "return 1",
    "def f(:\n    pass",
    "x = 1\n  y = 2",
    "'unfinished",
    "x = 1\x00",
    "import no_such_module",
    "from math import no_such_name",
    "input()",
    "exit",
    "__file__",
]
SURFACES = [
    "1 is 1",
    "import warnings\nwarnings.warn('look')",
    "import datetime\ndatetime.date(2020, 1, 2)",
    "x: int = 1\n__annotations__",
    "for _ in range(2): print(_)",
    "pwd",
    "%pwd",
    "%%capture\n1",
    "!echo hi",
    ">>> 1 + 1",
    "text = '''\n>>> 1\n'''\ntext",
    "In [1]: 2 + 2",
    "print?",
    "display(1)",
    "from IPython.display import HTML\nHTML('<b>b</b>')",
    "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().is_running()",
    "async def f(): return 5\nawait f()",
    "open('/dev/null').read()",
    "sorted(globals())",
    "import sys\nsys.path[0], sys.argv, sys.displayhook is sys.__displayhook__",
]
STORIES = {
    "plain cells": [*PLAIN, "In, Out", "sorted(globals())"],
    "history": ["1 + 1", "x = 5", "'a'", "_ * 2", "_1, __, _3, x", "In", "Out", "_i, _ii", "x"],
    "an empty cell counts for nothing": ["", "1", "  ", "2", "In, Out"],
    "errors of earlier functions": ["def f(x):\n    return 1 / x", "f(1)", "f(0)", "f(1)"],
    "sources": ["\ndef f(x):\n    return x", "import inspect\nprint(inspect.getsource(f))"],
    "names of code": ["def f(): pass", "f.__code__.co_filename, f.__code__.co_firstlineno"],
    "a class and its objects": [
        "class P:\n    def __init__(self, x): self._x = x\n    def __repr__(self): return 'a P'",
        "p = P(3)",
        "p",
        "import pickle\npickle.loads(pickle.dumps(p))",
        "P.__module__, P.__qualname__",
    ],
    "the namespace": ["a = 1", "import math as m", "b = m.pi", "del a", "sorted(globals()), b"],
    "numbers by chance": ["import random\nrandom.seed(1)", "1 / 0", "random.random()"],
    "the environment": [
        "import os\nos.environ['TMPDIR'] = '/no'",
        "import tempfile\ntempfile.gettempdir()",
    ],
    "the search path": ["import sys\nsys.path.insert(0, '/no')", "1 / 0", "sys.path[:2]"],
    "the directory": [
        "import os\nos.makedirs('sub', exist_ok=True)",
        "%cd -q sub",
        "os.getcwd()[-3:]",
    ],
    "own names": ["display = 3", "display", "del display", "display(1)"],
    "underscore": ["1 + 1", "_ = 5", "3", "_"],
    "a text that begins a cell": ["'documentation'\nx = 1", "__doc__"],
    "warnings that repeat": [
        "import datetime\ndef f(): return datetime.datetime.utcnow().year > 2000",
        "f()",
        "f()",
        "f(), 1 / 0",
        "f()",
    ],
    "semicolons": ["5;\n# a comment", "1;", "2", "_"],
    "warnings of Python": [
        "import re, sys\nsys.version_info > (3, 0)",
        "import warnings",
        "warnings.warn('x')",
    ],
    "files with names of modules": [
        "from pathlib import Path\nPath('random.py').write_text('x = 1')",
        "Path('traitlets.py').write_text('x = 1')",
        "Path('bdb.py').write_text('x = 1')",
        "import random\nrandom.choice([5])",
        "1 / 0",
        "import traitlets, bdb\n[hasattr(one, 'x') for one in (random, traitlets, bdb)]",
    ],
    "what is imported": [
        "import random, re",
        "import sys\n[n for n in ('plain', 'first') if n in sys.modules]",
    ],
    "a long story": [f"x{i} = {i}" for i in range(30)] + ["_i29, x0 + x29", "len(In)"],
}
PROGRAMS = [
    *(pytest.param([cell], id=cell[:40]) for cell in [*VALUES, *FAILURES, *SURFACES]),
    *(pytest.param(cells, id=name) for name, cells in STORIES.items()),
]


def reported(context: Context, cell: str) -> list[Event]:
    """Run a cell and return what was reported of it, but for what differs from run to run."""
    events: list[Event] = []
    for event in context.run(cell).events[1:]:
        if event["type"] == "ping":  # how long it took is chance, too
            continue
        same = {key: event[key] for key in event if key not in ("timestamp", "execution_time")}
        is_more = events and same["type"] == events[-1]["type"] in ("stdout", "stderr")
        if is_more:  # how output is cut into events is chance
            events[-1]["text"] += same["text"]
        else:
            events.append(same)
    addresses = re.compile(r"0x[0-9a-f]{6,}")
    return [json.loads(addresses.sub("0x", json.dumps(event))) for event in events]


@pytest.mark.parametrize("cells", PROGRAMS)
def test_the_first_context_tells_what_others_tell(
    daemon: Daemon, cells: list[str], tmp_path: Path
) -> None:
    directory = str(tmp_path)
    with forked_context(daemon, cwd=directory) as forked, first_context(cwd=directory) as first:
        for cell in cells:
            assert reported(first, cell) == reported(forked, cell), cell


def test_the_traceback_of_an_interrupted_plain_cell_shows_nothing_of_ours() -> None:
    with first_context() as first:
        with first.running("print('up')\nwhile True: pass") as events:
            next_of(events, "stdout")
            first.interrupt()
            error = next_of(events, "error")["error"]
        assert first.value("1 + 1") == "2"
    assert error["ename"] == "KeyboardInterrupt"
    assert error["traceback"][2].startswith("Cell In[1], line ")
    assert not any("runners" in line for line in error["traceback"])


@pytest.mark.parametrize("beginning", ["%pwd", "# " + "-" * 5_000_000])
def test_an_interrupt_ends_a_cell_that_has_not_begun(beginning: str) -> None:
    with first_context() as first:
        first.run("kept = 42")
        with first.running(f"{beginning}\nwhile True: pass") as events:
            next_of(events, "init")
            assert first.interrupt().status_code == 200
            error = next_of(events, "error")["error"]
        assert (error["ename"], error["evalue"]) == ("KeyboardInterrupt", "")
        assert first.value("kept") == "42"


def test_plain_cells_run_without_ipython_and_others_tell_that_it_is_broken(tmp_path: Path) -> None:
    package = tmp_path / "IPython"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('IPython is broken')")
    with first_context({"PYTHONPATH": str(tmp_path)}) as first:
        for cell in PLAIN:
            assert first.run(cell).error is None, cell
        assert results(first.run("P(1).twice()")) == [{"text": "2"}]
        execution = first.run("%pwd")
    assert execution.error is not None
    assert execution.error["ename"] == "InterpreterDied"
    assert "IPython is broken" in "".join(execution.stderr)
