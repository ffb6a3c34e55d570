# SPDX-License-Identifier: Apache-2.0
"""Shows execd at work: starts it on a unix socket, uses it as an agent would, cleans up.

Only the standard library is used, so that this runs before anything else is installed.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

EXECD = Path(__file__).resolve().parent.parent / "build" / "execd"
STOP_GRACE_SECONDS = 10.0  # bounds an orderly stop; a daemon that needs longer is killed

Event = dict[str, object]


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: Path) -> None:
        """Remember the path; connect happens with the first request."""
        super().__init__("execd", timeout=30)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of to a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Execd:
    """The few requests this tour makes."""

    def __init__(self, path: Path) -> None:
        """Use one connection for everything."""
        self._connection = UnixConnection(path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def request(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> bytes:
        """Send one request; return the body of a 2xx answer, raise on any other."""
        headers = {"Content-Type": kind} if kind else {}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        if not 200 <= response.status < 300:
            raise RuntimeError(f"{method} {path}: {response.status} {content.decode()}")
        return content

    def post(self, path: str, body: object) -> bytes:
        """Send JSON."""
        return self.request("POST", path, json.dumps(body).encode(), "application/json")

    def run(self, path: str, body: object) -> list[Event]:
        """Run something and return its events."""
        return [json.loads(frame) for frame in self.post(path, body).split(b"\n\n") if frame]

    def output(self, path: str, body: object) -> str:
        """Run something and return its output, with the exit code when it is not zero."""
        events = self.run(path, body)
        lines = [str(e["text"]) for e in events if e["type"] in ("stdout", "stderr")]
        for event in events:
            if isinstance(failure := event.get("error"), dict):
                lines.append(f"(exit code {failure['evalue']})")
        return " ".join(lines)

    def write(self, path: Path, content: bytes) -> None:
        """Upload one file."""
        metadata = json.dumps({"path": str(path), "mode": 644}).encode()
        head = b'--part\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n'
        name = path.name.encode()
        parts = head % (b"metadata", b"metadata", metadata) + head % (b"file", name, content)
        kind = "multipart/form-data; boundary=part"
        self.request("POST", "/files/upload", parts + b"--part--\r\n", kind)


@contextmanager
def running_daemon(home: Path) -> Iterator[Execd]:
    """Start execd with a socket that exists before it does, and stop it at the end."""
    path = home / "execd.sock"
    with socket.socket(socket.AF_UNIX) as listener, (home / "execd.log").open("wb") as log:
        listener.bind(str(path))
        listener.listen()
        descriptor = listener.fileno()
        command = [str(EXECD), f"--listen=fd://{descriptor}", f"--state-dir={home / 'state'}"]
        process = subprocess.Popen(
            command, pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    execd = Execd(path)
    try:
        yield execd
    finally:
        execd.close()
        process.terminate()
        try:
            process.wait(STOP_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def show(title: str, step: Callable[[], str]) -> None:
    """Do one step; print how long it took and what came out."""
    began = time.perf_counter()
    outcome = step()
    took = (time.perf_counter() - began) * 1000
    print(f"{took:8.1f} ms  {title:<34} {outcome}")


def tour(execd: Execd, work: Path) -> None:
    """Do what an agent does: commands, files, Python, a session, work in the background."""
    note = work / "note.txt"

    def first_answer() -> str:
        execd.request("GET", "/ping")
        return "up"

    def write_and_read() -> str:
        execd.write(note, b"written through execd\n")
        return execd.request("GET", f"/files/download?path={quote(str(note))}").decode().strip()

    def background() -> str:
        command = "for i in 1 2 3; do echo line $i; sleep 0.05; done"
        started = execd.run("/command", {"command": command, "background": True})
        identifier = started[0]["text"]
        # The output route follows the command to its end; no polling.
        frames = execd.request("GET", f"/command/{identifier}/output?cursor=0&follow=true")
        events = [json.loads(frame) for frame in frames.split(b"\n\n") if frame]
        text = "".join(event["text"] for event in events if event["type"] == "stdout")
        return ", ".join(text.split("\n")[:-1])

    python = [sys.executable, "-c", "print(sum(n * n for n in range(1000)))"]
    show("start, first answer", first_answer)
    show("shell command", lambda: execd.output("/command", {"command": "echo hello from $0"}))
    show("failing command", lambda: execd.output("/command", {"command": "exit 3"}))
    show("write a file, read it back", write_and_read)
    show("Python program", lambda: execd.output("/command", {"argv": python}))
    session = f"/session/{json.loads(execd.post('/session', {}))['session_id']}"
    define = "greeting=hello; greet() { echo $greeting $1; }"
    show("session: define a function", lambda: execd.output(f"{session}/run", {"command": define}))
    show(
        "session: call it in a later run",
        lambda: execd.output(f"{session}/run", {"command": "greet again"}),
    )
    execd.request("DELETE", session)
    show("background command, followed", background)


def main() -> int:
    """Run the tour in a temporary directory."""
    print("execd, the daemon inside every sandbox. It runs on this machine, as you:")
    print("isolation comes with the embedded runtime, which is not here yet.\n")
    with tempfile.TemporaryDirectory(prefix="execd-") as directory:
        home = Path(directory)
        try:
            with running_daemon(home) as execd:
                tour(execd, home)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            print(f"quickstart: {error}", file=sys.stderr)
            print((home / "execd.log").read_text(errors="replace"), file=sys.stderr)
            return 1
    print(
        "\nThe daemon is stopped, its files are gone. Next: docs/execd.md, make test, make bench."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
