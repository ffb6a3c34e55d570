# SPDX-License-Identifier: Apache-2.0
"""Says which cells are plain: Python by itself does with them exactly what IPython would.

In doubt a cell is not plain; then it runs in IPython, which is always right and starts later. A
plain cell uses no name that IPython gives or takes, imports only what IPython has imported too, and
has no way to change what IPython is made of.
"""

from __future__ import annotations

import _ast
import builtins
import sys
import warnings
from types import ModuleType

_PARSED = _ast.PyCF_ONLY_AST | 0x200  # PyCF_DONT_IMPLY_DEDENT, as IPython parses

_OS = """
    path environ getcwd getenv getpid listdir scandir walk stat mkdir makedirs remove unlink rmdir
    rename replace sep linesep name cpu_count urandom
"""
_SYS = """
    version version_info platform maxsize executable path argv byteorder implementation stdout
    stderr getsizeof getrecursionlimit exit
"""
_OTHERS = """
    abc base64 bisect collections copy datetime decimal enum fractions functools hashlib heapq
    itertools json math pathlib random re string struct textwrap time typing
"""
_MODULES: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(_OTHERS.split()),
    "os": frozenset(_OS.split()),
    "sys": frozenset(_SYS.split()),
}
"""What a plain cell may import, and what it may take of it; None is everything public."""

_TAKEN = """
    In Out display get_ipython exit quit open input help breakpoint copyright credits license
    eval exec compile globals locals vars dir getattr setattr delattr
"""
_NAMES = frozenset(_TAKEN.split())
"""What IPython gives, or what could look behind the curtain."""
_PROMPTS = (">>>", "...", "In [", "[ins]", "[nav]")
_DUNDERS = frozenset({"__init__", "__name__"})
_NOT_PLAIN = ("Await", "AsyncFor", "AsyncWith", "AsyncFunctionDef")
_NOT_NAMES = ("value", "kind", "type_comment")
"""Fields of nodes that hold text."""

_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})
_CONTAINERS = frozenset({list, tuple, dict})
_MAX_TEXT = 1_000
_MAX_LINE = 70  # IPython breaks containers that do not fit into 79
_MAX_DEPTH = 5  # a list may contain itself
_MAX_NUMBER = 10**100


def transformed(cell: str) -> str:
    """Return a cell without empty lines and indentation before it, as IPython does."""
    lines = (cell if cell.endswith("\n") else cell + "\n").splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if not line.isspace()), 0)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip(" \t"))]
    return "".join(line.removeprefix(indent) for line in lines[first:])


def steps(source: str, name: str, namespace: dict[str, object]) -> list[object] | None:
    """Compile a cell as IPython does, one statement at a time; None when it is not plain.

    What ``eval`` returns for the last is the value of the cell.
    """
    if not hasattr(sys, "stdlib_module_names") or _is_like_input_of_ipython(source):
        return None
    warned: list[object] = []
    show, warnings._showwarnmsg = warnings._showwarnmsg, warned.append
    try:
        body = compile(source, name, "exec", _PARSED, dont_inherit=True).body
        if _is_like_a_magic(source, body, namespace) or not _Look(namespace).is_plain(body):
            return None
        compiled = [_compiled(one, name, is_last=one is body[-1]) for one in body]
    except Exception:  # noqa: BLE001 - whatever is wrong with it, IPython tells it
        return None
    finally:
        warnings._showwarnmsg = show
    return None if warned else compiled


def text(value: object) -> str | None:
    """Return a value's text where it is surely what IPython shows and all it shows."""
    if type(value) in _CONTAINERS:
        shown = repr(value) if _is_small(value, depth=_MAX_DEPTH) else ""
        return shown if 0 < len(shown) <= _MAX_LINE else None
    return repr(value) if _is_small(value, depth=0) else None


def _is_like_input_of_ipython(source: str) -> bool:
    """Say whether lines may begin with a prompt, or the last may ask for silence with ``;``."""
    lines = source.splitlines()
    for line in reversed(lines):
        if ";" in line:
            return True
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return any(line.lstrip().startswith(_PROMPTS) for line in lines)


def _is_like_a_magic(line: str, body: list[_ast.stmt], namespace: dict[str, object]) -> bool:
    """Say whether a line begins with a name that nobody has, as ``pwd``: it may be a magic."""
    is_line = len(line.splitlines()) == 1  # only then IPython looks
    kinds = (_ast.Expr, _ast.AnnAssign, _ast.AugAssign)
    if not is_line or not body or not isinstance(body[0], kinds):
        return False
    word = line[: next((i for i, one in enumerate(line) if not (one + "_").isidentifier()), 0)]
    return word.isidentifier() and word not in namespace and not hasattr(builtins, word)


def _compiled(statement: _ast.stmt, name: str, *, is_last: bool) -> object:
    if is_last and isinstance(statement, _ast.Expr):
        return compile(_ast.Expression(statement.value), name, "eval", dont_inherit=True)
    return compile(_ast.Module([statement], []), name, "exec", dont_inherit=True)


def _is_small(value: object, depth: int) -> bool:
    kind = type(value)
    if kind in _CONTAINERS and depth > 0 and len(value) <= _MAX_LINE:
        items = [*value, *value.values()] if kind is dict else value
        return all(_is_small(item, depth - 1) for item in items)
    if kind is int:
        return abs(value) < _MAX_NUMBER
    if kind is str or kind is bytes:
        return len(value) <= _MAX_TEXT
    return kind in _ATOMS


class _Look:
    """Looks through the statements of one cell."""

    def __init__(self, namespace: dict[str, object]) -> None:
        """Know which names are modules: those may only be used as ``module.name``."""
        self._modules = {
            name: value.__name__
            for name, value in namespace.items()
            if isinstance(value, ModuleType)
        }

    def is_plain(self, body: list[_ast.stmt]) -> bool:
        """Look at every node; imports first, because they make names of modules."""
        nodes = list(_nodes(body))
        for node in nodes:
            if isinstance(node, _ast.Import):
                for one in node.names:
                    self._modules[one.asname or one.name] = one.name
        bases = [node.value for node in nodes if isinstance(node, _ast.Attribute)]
        inner = {id(base) for base in bases if isinstance(base, (_ast.Attribute, _ast.Name))}
        return all(id(node) in inner or self._is_fine(node) for node in nodes)

    def _is_fine(self, node: _ast.AST) -> bool:
        if isinstance(node, _ast.Import):
            return all(one.name in _MODULES and _is_free(self._name(one)) for one in node.names)
        if isinstance(node, _ast.ImportFrom):
            return self._may_import(node)
        if isinstance(node, _ast.Attribute):
            return self._may_reach(node)
        if isinstance(node, _ast.Name):
            return node.id not in self._modules and (_is_free(node.id) or node.id == "__name__")
        if isinstance(node, _ast.FunctionDef) and _is_dunder(node.name):
            return True
        return type(node).__name__ not in _NOT_PLAIN and all(map(_is_free, _texts(node)))

    def _may_import(self, node: _ast.ImportFrom) -> bool:
        module = node.module if node.level == 0 else None
        return module in _MODULES and all(
            _may_take(module, one.name) and _is_free(self._name(one)) for one in node.names
        )

    @staticmethod
    def _name(imported: _ast.alias) -> str:
        return imported.asname or imported.name

    def _may_reach(self, node: _ast.Attribute) -> bool:
        """Look at a whole chain ``root.one.two``, of which this is the last."""
        chain, root = [node.attr], node.value
        while isinstance(root, _ast.Attribute):
            chain.insert(0, root.attr)
            root = root.value
        name = root.id if isinstance(root, _ast.Name) else None
        if name in self._modules:
            return isinstance(node.ctx, _ast.Load) and self._may_use(self._modules[name], chain)
        if name is not None and not _is_free(name):
            return False
        is_own = name in ("self", "cls")
        if not isinstance(node.ctx, _ast.Load) and not (is_own and len(chain) == 1):
            return False  # what is set there may belong to others
        is_public = not any(one.startswith("_") and one not in _DUNDERS for one in chain)
        return is_public or (is_own and not any(map(_is_dunder, chain)))

    def _may_use(self, module: str, chain: list[str]) -> bool:
        if module == "os" and chain[0] == "path":
            return len(chain) > 1 and _may_take("posixpath", chain[1])
        is_deep = any(one.startswith("_") or one in sys.stdlib_module_names for one in chain[1:])
        return not is_deep and _may_take(module, chain[0])


def _may_take(module: str, name: str) -> bool:
    allowed = _MODULES.get(module)
    if allowed is not None:
        return name in allowed and (module, name) != ("os", "path")
    is_module = name in sys.stdlib_module_names and name != module
    return not is_module and name != "*" and not name.startswith("_")


def _is_free(name: str) -> bool:
    """Say whether a name means nothing to IPython and nothing to the interpreter."""
    if name.startswith("_"):
        is_history = not name.strip("_") or name[1].isdigit() or name[1] == "i"
        return not is_history and not _is_dunder(name) and name not in ("_oh", "_dh")
    return name not in _NAMES


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _nodes(found: object) -> list[_ast.AST]:
    """Return every node below, in any order."""
    nodes, left = [], [found]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(one)
        elif isinstance(one, _ast.AST):
            nodes.append(one)
            left.extend(getattr(one, field, None) for field in one._fields)
    return nodes


def _texts(node: _ast.AST) -> list[str]:
    """Return the names that a node itself has: what it defines, binds or declares."""
    found = []
    for field in node._fields:
        value = getattr(node, field, None)
        if field in _NOT_NAMES:
            continue
        found += [value] if isinstance(value, str) else []
        found += [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return found
