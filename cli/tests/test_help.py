# SPDX-License-Identifier: Apache-2.0
"""Every command of the contract is there with its flags, and help is quick because it is lazy."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import click
import pytest

from cli.tests.program import Osb
from opensandbox_cli.main import PLACES, osb

# The command tree of the contract; what osb has besides is not listed.
CONTRACT = {
    "": "--api-key --domain --protocol --request-timeout --use-server-proxy --no-use-server-proxy "
    "--config -v --verbose --no-color --version -h --help",
    "sandbox create": "-i --image --image-auth-username --image-auth-password --template "
    "--snapshot-id -f --file -t --timeout -e --env -m --metadata --extension --resource "
    "--entrypoint --network-policy-file --credential-proxy --volumes-file --skip-health-check "
    "--ready-timeout -o --output",
    "sandbox list": "-s --state -m --metadata --page --page-size -o --output",
    "sandbox get": "-o",
    "sandbox kill": "",
    "sandbox pause": "",
    "sandbox health": "",
    "sandbox resume": "--skip-health-check --resume-timeout",
    "sandbox renew": "-t --timeout",
    "sandbox endpoint": "-p --port",
    "sandbox metrics": "--watch",
    "template create": "-i -p --publish -f --file --resource --entrypoint -e -m --format "
    "--readiness-probe --warmup-seconds",
    "template get": "",
    "template list": "-m --page --page-size",
    "template delete": "",
    "snapshot create": "--name",
    "snapshot get": "",
    "snapshot list": "--sandbox-id --name --state --page --page-size",
    "snapshot delete": "",
    "command run": "-d --background -w --workdir -t --timeout --argv",
    "command status": "",
    "command logs": "--cursor",
    "command interrupt": "",
    "command session create": "-w",
    "command session run": "-w -t",
    "command session delete": "",
    "file cat": "--encoding",
    "file write": "-c --content --encoding --mode --owner --group",
    "file upload": "",
    "file download": "",
    "file rm": "",
    "file mv": "",
    "file rmdir": "",
    "file info": "",
    "file mkdir": "--mode --owner --group",
    "file search": "-p --pattern",
    "file chmod": "--mode --owner --group",
    "file replace": "--old --new",
    "egress get": "",
    "egress patch": "--rule",
    "credential-vault create": "--file",
    "credential-vault get": "",
    "credential-vault patch": "--file",
    "credential-vault delete": "",
    "credential-vault credential list": "",
    "credential-vault credential get": "",
    "credential-vault binding list": "",
    "credential-vault binding get": "",
    "diagnostics logs": "-s",
    "diagnostics events": "-s",
    "devops logs": "-n --tail -s --since",
    "devops inspect": "",
    "devops events": "-l --limit",
    "devops summary": "-n --event-limit",
    "config init": "--force",
    "config show": "",
    "config set": "",
    "skills install": "--all-builtins -t --target --scope -f",
    "skills show": "",
    "skills list": "",
    "skills uninstall": "",
}


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Walk the tree."""
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, below)
        else:
            yield below, command


TREE = dict(commands(osb))


@pytest.mark.parametrize("path", CONTRACT)
def test_a_command_of_the_contract_has_its_flags(path: str) -> None:
    command = TREE[path]
    options = [param for param in command.params if isinstance(param, click.Option)]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    known |= {"-h", "--help"}
    assert set(CONTRACT[path].split()) - known == set()


@pytest.mark.parametrize("path", TREE)
def test_every_command_explains_itself(path: str) -> None:
    command = TREE[path]
    context = click.Context(command, info_name=f"osb {path}".strip())
    text = command.get_help(context)
    assert command.help, "it has no text"
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{param.opts} has no text"
            assert param.opts[0] in text


@pytest.mark.parametrize("name", PLACES)
def test_the_line_in_the_list_is_the_first_of_the_command(name: str) -> None:
    command = osb.get_command(click.Context(osb), name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == PLACES[name].summary


@pytest.mark.parametrize("words", ["--help", "run --help", "sandbox create -h", "server -h"])
def test_help_exits_well(lonely_osb: Osb, words: str) -> None:
    assert lonely_osb.print_(*words.split()).startswith("Usage: ")


def test_the_version_is_that_of_the_repository(lonely_osb: Osb) -> None:
    from opensandbox import __version__

    assert lonely_osb.print_("--version") == f"osb {__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["sandbox", "--help"], ["file", "cat", "--help"]])
def test_help_does_not_wait_for_the_client(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from opensandbox_cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    heavy = {'httpx', 'pydantic', 'opensandbox', 'yaml'} & set(sys.modules)\n"
        "    print('imported:', sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == "imported: []\n"


def test_a_command_does_without_the_command_line_of_httpx(lonely_osb: Osb) -> None:
    program = replace(lonely_osb, variables={"PYTHONPROFILEIMPORTTIME": "1"})
    stderr = program.run("sandbox", "list").stderr.decode()
    imported = {line.rpartition("|")[2].strip() for line in stderr.splitlines()}
    assert "httpx" in imported
    assert not imported & {"rich", "pygments"}


def test_both_names_are_installed() -> None:
    from importlib.metadata import entry_points

    ours = entry_points(group="console_scripts").select(module="opensandbox_cli.__main__")
    assert {one.name for one in ours} == {"osb", "opensandbox"}
