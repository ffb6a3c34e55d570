# SPDX-License-Identifier: Apache-2.0
"""Counts what somebody reads who follows one create, one run and its stream through all planes.

    python scripts/walk.py   # print the walk; exit 1 when it names what is no longer there

WALK below is kept by hand, in the order of reading. When code moves, this fails and names each line
of WALK that is stale; the new place is put in there. No count is too high for it.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL = (24, 4000)
WIDTH = 120

CLIENT = "sdks/python/opensandbox"
SERVER = "server/opensandbox_server"
OCI = f"{SERVER}/runtimes/oci"
LAUNCHER = f"{OCI}/launcher"
DATA = "dataplane"


@dataclass(frozen=True)
class Stage:
    """One file, and what of it is passed: functions, methods (`Type.name`) and types."""

    plane: str
    file: str
    names: tuple[str, ...]
    is_trusted: bool = False
    """The name says enough: most readers do not open the file."""


def read(plane: str, file: str, *names: str) -> Stage:
    """Name a file that a reader opens."""
    return Stage(plane, file, names)


def trust(plane: str, file: str, *names: str) -> Stage:
    """Name a file that a reader need not open."""
    return Stage(plane, file, names, is_trusted=True)


WALK: dict[str, tuple[Stage, ...]] = {
    "create": (
        read("client", f"{CLIENT}/_async/sandbox.py", "Sandbox.create", "Sandbox._make"),
        trust("client", f"{CLIENT}/models/creation.py", "CreateSandboxRequest"),
        trust("client", f"{CLIENT}/config/__init__.py", "_Connection.lifecycle"),
        read("client", f"{CLIENT}/_async/creation.py", "create_sandbox"),
        read("client", f"{CLIENT}/_async/transport.py", "opening", "Remote.ask", "Remote.open"),
        trust("client", f"{CLIENT}/_async/retry.py", "RetryAsyncTransport.handle_async_request"),
        trust("client", f"{CLIENT}/_retry.py", "Retrying.next_wait"),
        trust("client", f"{CLIENT}/_failures.py", "translated", "read_answer"),
        read("ingress", f"{DATA}/ingress/ingress.go", "Server.ServeHTTP"),
        read("ingress", f"{DATA}/ingress/exchange.go", "exchange.forward"),
        read("server", f"{SERVER}/app.py", "build_app"),
        trust("server", f"{SERVER}/api/middleware.py", "Authentication.__call__"),
        trust("server", f"{SERVER}/api/depends.py", "_sandboxes"),
        read("server", f"{SERVER}/api/sandboxes.py", "create_sandbox"),
        read(
            "server",
            f"{SERVER}/sandboxes/sandboxes.py",
            *("Sandboxes.create", "Sandboxes._create", "Sandboxes._start", "Sandboxes._want"),
        ),
        trust("server", f"{SERVER}/sandboxes/idempotency.py", "Idempotency.once"),
        read("server", f"{SERVER}/sandboxes/admission.py", "admit"),
        trust("server", f"{SERVER}/sandboxes/metadata.py", "check_metadata"),
        trust("server", f"{SERVER}/runtimes/quantities.py", "parse_limits"),
        read("server", f"{SERVER}/store/stored.py", "StoredSandbox", "to_row"),
        trust("server", f"{SERVER}/sandboxes/sandbox.py", "Sandbox.see", "Sandbox.route"),
        read(
            "server",
            f"{SERVER}/store/sqlite.py",
            "SqliteStore.insert",
            "SqliteStore.update",
            "SqliteStore._do",
        ),
        read("server", f"{SERVER}/runtimes/base.py", "SandboxSpec", "Instance", "Runtime.start"),
        read(
            "server",
            f"{OCI}/runtime.py",
            *("OCIRuntime.start", "OCIRuntime._start"),
            *("OCIRuntime._ask", "OCIRuntime._answered", "effective_limits", "to_instance"),
        ),
        trust("server", f"{OCI}/images/store.py", "ImageStore.resolve"),
        read("server", f"{SERVER}/runtimes/execd.py", "listening", "first_answer"),
        read("server", f"{OCI}/client.py", "LauncherClient.ask", "LauncherClient._take"),
        read("server", f"{OCI}/protocol.py", "Start", "verb_of", "encode", "receive"),
        read(
            "launcher",
            f"{LAUNCHER}/launcher.py",
            *("Launcher.serve", "Launcher._dispatch", "Launcher._answer", "Launcher._do"),
        ),
        read(
            "launcher",
            f"{LAUNCHER}/instances.py",
            *("Instances.start", "Instances._make", "Instances._prepare_bundle"),
            "Instances._run_in_cgroup",
        ),
        trust("launcher", f"{LAUNCHER}/slots.py", "Slots.take", "Slots._make"),
        trust("launcher", f"{LAUNCHER}/namespaces.py", "Namespaces.make"),
        trust("launcher", f"{OCI}/network/network.py", "Network.connect"),
        trust("launcher", f"{LAUNCHER}/records.py", "Record", "write_record"),
        trust("launcher", f"{LAUNCHER}/logs.py", "open_pipe", "Logs.follow"),
        trust("launcher", f"{LAUNCHER}/stage.py", "Stage.bundle_dir", "Stage.show"),
        trust("launcher", f"{LAUNCHER}/cgroups/tree.py", "Cgroups.make", "Cgroups.opened_entrance"),
        trust("launcher", f"{LAUNCHER}/cgroups/cgroups.py", "CgroupsV2.make", "CgroupsV2.divide"),
        trust("launcher", f"{LAUNCHER}/rootfs.py", "mount_rootfs", "write_etc"),
        read("launcher", f"{LAUNCHER}/bundle.py", "Surroundings", "config"),
        read("launcher", f"{LAUNCHER}/program.py", "Program.run", "Program._do"),
        read("execd", f"{DATA}/cmd/execd/main.go", "main"),
        read("execd", f"{DATA}/cmd/execd/run.go", "run", "serve", "startEntrypoint"),
        trust("execd", f"{DATA}/listen/listen.go", "All"),
        trust("execd", f"{DATA}/execd/server.go", "Server.Handler", "Server.ping"),
        read("server", f"{SERVER}/ingress/ingress.py", "Ingress.put", "Ingress._tell"),
        trust("server", f"{SERVER}/ingress/channel.py", "Channel.request"),
        trust("ingress", f"{DATA}/ingress/control.go", "Server.ServeControl", "Server.apply"),
        read("ingress", f"{DATA}/ingress/table.go", "table.put", "newSandbox"),
        trust("server", f"{SERVER}/sandboxes/expiry.py", "Expiry.set"),
        trust("server", f"{SERVER}/sandboxes/states.py", "status_of"),
        trust("server", f"{SERVER}/api/views.py", "created"),
        trust("server", f"{SERVER}/ingress/endpoints.py", "Endpoints.of"),
        trust(
            "client",
            f"{CLIENT}/_async/connections.py",
            *("Connections.learn", "Connections.find_execd"),
        ),
        trust("client", f"{CLIENT}/_async/readiness.py", "Wait.after", "find_endpoint"),
    ),
    "run": (
        read("client", f"{CLIENT}/_async/commands.py", "Commands.run", "Commands._run"),
        trust("client", f"{CLIENT}/_requests.py", "run_body"),
        read("client", f"{CLIENT}/_async/following.py", "Following.run", "Following._read"),
        read("client", f"{CLIENT}/_async/transport.py", "Remote.open"),
        read("ingress", f"{DATA}/ingress/ingress.go", "exchange.serveSandbox", "exchange.admit"),
        read("ingress", f"{DATA}/ingress/destination.go", "findDestination", "parsePath"),
        trust("ingress", f"{DATA}/ingress/access.go", "exchange.authorize"),
        read("ingress", f"{DATA}/ingress/table.go", "table.find"),
        trust("ingress", f"{DATA}/ingress/header.go", "exchange.requestHeader"),
        trust("ingress", f"{DATA}/ingress/link.go", "link.transport", "link.dial"),
        read("ingress", f"{DATA}/ingress/exchange.go", "exchange.forward", "exchange.outgoing"),
        trust("execd", f"{DATA}/execd/server.go", "Server.Handler", "Server.authorized"),
        trust("execd", f"{DATA}/execd/request.go", "readJSON"),
        read(
            "execd",
            f"{DATA}/execd/command.go",
            *("Server.runCommand", "Server.commandRequest", "Server.startCommand"),
        ),
        trust("execd", f"{DATA}/process/environ.go", "Environ.For", "FindShell"),
        read("execd", f"{DATA}/command/commands.go", "Commands.Start", "Commands.finished"),
        read("execd", f"{DATA}/command/launch.go", "Commands.launch", "Commands.capture"),
        read("execd", f"{DATA}/process/process.go", "Table.Start", "Table.collect"),
        trust("execd", f"{DATA}/command/capture.go", "Capture.Run", "Capture.Sync"),
        read("execd", f"{DATA}/command/command.go", "Command.wait", "Command.end"),
        read("execd", f"{DATA}/journal/journal.go", "Journal.appendFrame", "Journal.Seal"),
        trust("execd", f"{DATA}/journal/ring.go", "writeRing", "readRing"),
    ),
    "stream": (
        read("execd", f"{DATA}/journal/reader.go", "Journal.Read", "Reader.Next", "Reader.take"),
        read("execd", f"{DATA}/execd/stream.go", "streamLines", "sendRemaining", "appendResult"),
        trust("execd", f"{DATA}/event/lines.go", "Lines.Append", "Lines.Flush"),
        trust("execd", f"{DATA}/event/event.go", "AppendText", "AppendComplete"),
        read("execd", f"{DATA}/event/stream.go", "Stream.Send", "Stream.send"),
        read("ingress", f"{DATA}/ingress/exchange.go", "exchange.respond", "exchange.copyBody"),
        trust("ingress", f"{DATA}/ingress/response.go", "exchange.copyResponseHeader"),
        read("client", f"{CLIENT}/_async/transport.py", "chunks_of"),
        read("client", f"{CLIENT}/_async/following.py", "Following._read", "Following._take"),
        trust("client", f"{CLIENT}/_resuming.py", "Lines.accept"),
        read("client", f"{CLIENT}/_events.py", "EventReader.feed", "Fold.add", "Fold.finish"),
        trust("client", f"{CLIENT}/models/execd.py", "Execution"),
    ),
}


def places(file: Path) -> dict[str, range]:
    """Return where the functions, methods and types of a source are, by name."""
    text = file.read_text()
    return dict(_in_go(text) if file.suffix == ".go" else _in_python(ast.parse(text).body))


def _in_python(body: Iterable[ast.stmt], within: str = "") -> Iterator[tuple[str, range]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield f"{within}{node.name}", range(first, (node.end_lineno or first) + 1)
        if isinstance(node, ast.ClassDef):
            yield from _in_python(node.body, f"{node.name}.")


_GO = re.compile(r"^(?:func (?:\((?:\w+ )?\*?(?P<type>\w+)[^)]*\) )?|type )(?P<name>\w+)")


def _in_go(text: str) -> Iterator[tuple[str, range]]:
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if found := _GO.match(line):
            last = number
            if line.endswith(("{", "(")):  # gofmt puts its end at the margin
                last = next(n for n in range(number, len(lines)) if lines[n] in ("}", ")")) + 1
            name = f"{found['type']}.{found['name']}" if found["type"] else found["name"]
            yield name, range(number, last + 1)


def stale(stages: Iterable[Stage], root: Path = ROOT) -> list[str]:
    """Return a line for everything that is named and is not there."""
    found = []
    for stage in stages:
        file = root / stage.file
        if not file.is_file():
            found.append(f"{stage.file} is not there")
            continue
        there = places(file)
        found += [f"{stage.file} has no {name}" for name in stage.names if name not in there]
    return found


def undecided(stages: Iterable[Stage]) -> list[str]:
    """Return the files that are opened in one place and taken on trust in another."""
    by_kind: dict[bool, set[str]] = {True: set(), False: set()}
    for stage in stages:
        by_kind[stage.is_trusted].add(stage.file)
    return sorted(by_kind[True] & by_kind[False])


def all_stages() -> list[Stage]:
    """Return the whole walk in order."""
    return [stage for stages in WALK.values() for stage in stages]


@dataclass(frozen=True)
class Total:
    """How much there is to read."""

    files: int
    lines: int
    named_lines: int
    """Of these, the lines of what the stages name."""


def total(stages: Iterable[Stage], root: Path = ROOT) -> Total:
    """Count every file and every line once, however often the walk comes by."""
    named: dict[str, set[int]] = {}
    for stage in stages:
        there = places(root / stage.file)
        lines = {line for name in stage.names for line in there[name]}
        named.setdefault(stage.file, set()).update(lines)
    whole = sum(len((root / file).read_text().splitlines()) for file in named)
    return Total(len(named), whole, sum(map(len, named.values())))


def report() -> str:
    """Return the walk as it is printed. Raises ValueError for a stale one."""
    if gone := stale(all_stages()):
        raise ValueError("; ".join(gone))
    lines = ["lines, those of what is named, file, what is named; ~ can be taken on trust", ""]
    seen: set[str] = set()
    for walk, stages in WALK.items():
        plane = ""
        for stage in stages:
            if stage.plane != plane:
                plane = stage.plane
                lines.append(f"{walk}: {plane}")
            lines += _rows(stage, is_again=stage.file in seen)
            seen.add(stage.file)
    return "\n".join([*lines, "", *_totals()])


def _rows(stage: Stage, *, is_again: bool) -> list[str]:
    count = total([stage])
    whole = '"' if is_again else f"{count.lines}"
    mark = "~" if stage.is_trusted else " "
    head = f" {mark} {whole:>5} {count.named_lines:>4}  {stage.file}  "
    names = ", ".join(stage.names)
    return textwrap.wrap(head + names, WIDTH, subsequent_indent=" " * 17, drop_whitespace=True)


def _totals() -> list[str]:
    everything = all_stages()
    counts = {
        "everything touched": total(everything),
        "without what can be taken on trust": total(s for s in everything if not s.is_trusted),
    }
    rows = [
        f"{_total(what, count.files, count.lines)}, {count.named_lines:,} in what is named"
        for what, count in counts.items()
    ]
    return [*rows, _total("goal for that", *GOAL)]


def _total(what: str, files: int, lines: int) -> str:
    return f"{what:<36}{files:>3} files {lines:>6,} lines"


def main() -> int:
    """Print the walk, or what is stale in it."""
    if gone := stale(all_stages()):
        for line in gone:
            print(f"walk: {line}; WALK in scripts/walk.py names it", file=sys.stderr)
        return 1
    print(report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
