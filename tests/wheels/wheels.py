# SPDX-License-Identifier: Apache-2.0
"""The wheels are whole: built from this tree, installed elsewhere, and used from there."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.server import serving

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
UV = str(CACHE / "tools" / "bin" / "uv")
KEY = "key of the wheels"
OUTSIDE = "tests/wheels/elsewhere"
"""A package with a runtime, as somebody else would write it."""
PACKAGES = (
    "cli",
    "mcp",
    "sdks/code-interpreter",
    "sdks/python",
    "server",
    "tests/conformance",
    OUTSIDE,
)

OF_HTTPX = {"anyio", "certifi", "h11", "httpcore", "httpx", "idna", "sniffio"}
OF_PYDANTIC = {
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "typing-extensions",
    "typing-inspection",
}

# Go is compiled for two kinds of processor, on a fresh machine with its standard library.
pytestmark = pytest.mark.timeout(400)

USE = """
import sys
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync

config = ConnectionConfigSync(api_key=sys.argv[2], domain=sys.argv[1])
sandbox = SandboxSync.create("host", connection_config=config)
try:
    sandbox.files.write_file("/tmp/from-the-wheel", "kept")
    print(sandbox.commands.run("cat /tmp/from-the-wheel; echo; id -u").text)
finally:
    sandbox.destroy()
"""

CELLS = """
import sys
from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync

config = ConnectionConfigSync(api_key=sys.argv[2], domain=sys.argv[1])
with SandboxSync.temporary("host", connection_config=config) as sandbox:
    codes = CodeInterpreterSync.create(sandbox).codes
    codes.run("x=20", language="bash")
    print(codes.run("echo $((x + 22))", language="bash").text)
"""

AGENT = """
import sys
import anyio
from mcp import Client, StdioServerParameters

async def main():
    told = {"OPEN_SANDBOX_DOMAIN": sys.argv[2], "OPEN_SANDBOX_API_KEY": sys.argv[3]}
    program = StdioServerParameters(command=sys.argv[1], args=["--workspace"], env=told)
    async with Client(program) as client:
        done = await client.call_tool("command_run", {"command": "echo hello"})
        print(done.structured_content["logs"]["stdout"][0]["text"])

anyio.run(main)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of this repository, and one from outside of it."""
    made = tmp_path_factory.mktemp("wheels")
    # From PATH, which has setup's Go when the machine has none.
    path = f"{CACHE / 'tools' / 'bin'}:{os.environ['PATH']}"
    for package in PACKAGES:
        build = [UV, "build", "--quiet", "--wheel", "--out-dir", str(made), str(ROOT / package)]
        subprocess.run(build, check=True, env=os.environ | {"PATH": path})
    return made


def install(wheels: Path, place: Path, *names: str) -> Path:
    """Make an empty environment outside the clone with some wheels and what they need."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
    chosen = [str(next(wheels.glob(f"{name}-[0-9]*.whl"))) for name in names]
    python = str(place / "bin" / "python")
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *chosen], check=True)
    return place


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the server, and with a runtime from outside."""
    names = ("opensandbox", "opensandbox_server", "opensandbox_runtime_elsewhere")
    return install(wheels, tmp_path_factory.mktemp("server") / "env", *names)


@pytest.fixture(scope="module")
def suite(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the conformance suite and nothing else of ours."""
    return install(wheels, tmp_path_factory.mktemp("suite") / "env", "opensandbox_conformance")


@pytest.fixture(scope="module")
def client(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the client and nothing else of ours."""
    return install(wheels, tmp_path_factory.mktemp("client") / "env", "opensandbox")


@pytest.fixture(scope="module")
def people(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the command line, the client below it, and nothing else of ours."""
    names = ("opensandbox", "opensandbox_cli")
    return install(wheels, tmp_path_factory.mktemp("people") / "env", *names)


@pytest.fixture(scope="module")
def agents(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the MCP server, the client below it, and nothing else of ours."""
    names = ("opensandbox", "opensandbox_mcp")
    return install(wheels, tmp_path_factory.mktemp("agents") / "env", *names)


@pytest.fixture(scope="module")
def notebook(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the interpreter, the client below it, and nothing else of ours."""
    names = ("opensandbox", "opensandbox_code_interpreter")
    return install(wheels, tmp_path_factory.mktemp("notebook") / "env", *names)


@contextlib.contextmanager
def running(environment: Path, runtime: str, home: Path) -> Iterator[str]:
    """Run the installed server away from the clone; gives its address."""
    with serving(
        home / "data",
        *("--runtime", runtime, "--stop-sandboxes"),
        key=KEY,
        program=[str(environment / "bin" / "opensandbox-server"), "serve"],
        environment={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    ) as server:
        assert httpx.get(f"{server.url}/health").is_success
        yield server.url.removeprefix("http://")
        assert server.end() == 0


def conform(suite: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed suite, where no settings of this repository apply."""
    command = [str(suite / "bin" / "opensandbox-conformance"), *words]
    return subprocess.run(
        command,
        cwd=home,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def best_runtime() -> str:
    has_launcher = shutil.which("crun") or shutil.which("runc")
    return "oci" if os.geteuid() == 0 and has_launcher else "fake"


def test_the_server_wheel_carries_its_programs_and_recipes(environment: Path) -> None:
    (package,) = environment.glob("lib/python*/site-packages/opensandbox_server")
    programs = package / "bin"
    names = {program.name for program in programs.iterdir()}
    assert {"execd-linux-amd64", "execd-linux-arm64"} <= names
    assert any(name.startswith("ingress") for name in names)
    recipes = {file.parent.name for file in package.glob("recipes/*/Dockerfile")}
    assert recipes == {"base", "code-interpreter"}


def test_the_server_wheel_lists_what_is_in_it(environment: Path) -> None:
    [place] = environment.glob("lib/python3*/site-packages")
    [path] = place.glob("opensandbox_server-*.dist-info/sboms/*.cdx.json")
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "opensandbox-server",
    )
    files = {part["name"]: part for part in bill["components"] if part["type"] == "file"}
    assert len(files) == 3
    for name, part in files.items():
        [known] = part["hashes"]
        content = hashlib.sha256((place / name).read_bytes()).hexdigest()
        assert (known["alg"], known["content"]) == ("SHA-256", content)
    modules = {part["purl"].partition("@")[0] for part in bill["components"] if "purl" in part}
    assert {"pkg:golang/stdlib", "pkg:golang/golang.org/x/sys"} <= modules


def test_a_sandbox_runs_from_what_the_wheels_installed(
    environment: Path, client: Path, tmp_path: Path
) -> None:
    with running(environment, best_runtime(), tmp_path) as domain:
        used = subprocess.run(
            [str(client / "bin" / "python"), "-c", USE, domain, KEY],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert used.stdout.startswith("kept\n")


def test_the_client_brings_what_it_is_made_of_and_little_else(client: Path) -> None:
    assert installed_in(client) <= {"opensandbox", "websockets"} | OF_HTTPX | OF_PYDANTIC


def test_the_command_line_brings_the_client_and_two_more(client: Path, people: Path) -> None:
    more = installed_in(people) - installed_in(client)
    assert more == {"opensandbox-cli", "click", "pyyaml"}


def installed_in(environment: Path) -> set[str]:
    """Return the names of the packages in an environment."""
    words = [UV, "pip", "list", "--format=json", "--python", str(environment / "bin" / "python")]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {str(package["name"]).lower() for package in json.loads(listed)}


def test_a_person_works_with_what_the_wheels_installed(
    environment: Path, people: Path, tmp_path: Path
) -> None:
    with running(environment, best_runtime(), tmp_path) as domain:
        told = {"OPEN_SANDBOX_DOMAIN": domain, "OPEN_SANDBOX_API_KEY": KEY}
        used = subprocess.run(
            [
                str(people / "bin" / "osb"),
                "run",
                "--image",
                "host",
                "--",
                "sh",
                "-c",
                "cat; exit 7",
            ],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **told},
            input="typed",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        left = httpx.get(f"http://{domain}/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": KEY})
    assert (used.returncode, used.stdout, used.stderr) == (7, "typed", "")
    assert left.json()["items"] == []


def test_code_runs_with_what_the_wheels_installed(
    environment: Path, notebook: Path, tmp_path: Path
) -> None:
    with running(environment, best_runtime(), tmp_path) as domain:
        used = subprocess.run(
            [str(notebook / "bin" / "python"), "-c", CELLS, domain, KEY],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert used.stdout == "42\n"


def test_an_agent_works_with_what_the_wheels_installed(
    environment: Path, agents: Path, tmp_path: Path
) -> None:
    program = str(agents / "bin" / "opensandbox-mcp")
    with running(environment, best_runtime(), tmp_path) as domain:
        used = subprocess.run(
            [str(agents / "bin" / "python"), "-c", AGENT, program, domain, KEY],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert used.stdout == "hello\n"


def test_the_installed_suite_passes_on_a_runtime_from_outside_this_repository(
    environment: Path, suite: Path, tmp_path: Path
) -> None:
    with running(environment, "elsewhere", tmp_path) as domain:
        done = conform(suite, tmp_path, "--domain", domain, "--api-key", KEY, "--image", "any")
        left = httpx.get(f"http://{domain}/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": KEY})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_lifecycle.py" in done.stdout
    assert " passed" in done.stdout
    assert left.json()["items"] == []


def test_the_installed_suite_says_at_once_when_it_cannot_ask_the_server(
    environment: Path, suite: Path, tmp_path: Path
) -> None:
    with running(environment, "elsewhere", tmp_path) as domain:
        given = ("--domain", domain, "--image", "any", "-q")
        refused = conform(suite, tmp_path, *given, "--api-key", "another")
        wrong = conform(suite, tmp_path, "--domain", f"{domain}/nowhere", "--api-key", KEY)
    gone = conform(suite, tmp_path, *given, "--api-key", KEY)
    assert (refused.returncode, wrong.returncode, gone.returncode) == (4, 4, 4)
    assert "does not take this key" in refused.stdout + refused.stderr
    assert "does not answer" in gone.stdout + gone.stderr


def test_a_runtime_from_outside_checks_its_own_table_of_the_config(
    environment: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[runtime]\ntype = "elsewhere"\n[elsewhere]\ncolour = "red"\n')
    words = [
        str(environment / "bin" / "opensandbox-server"),
        "--config",
        str(config),
        "--port",
        "0",
    ]
    words += ["--data-dir", str(tmp_path / "data")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "elsewhere.colour: unknown key" in done.stderr
