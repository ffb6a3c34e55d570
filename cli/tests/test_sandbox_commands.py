# SPDX-License-Identifier: Apache-2.0
"""``osb sandbox``, ``diagnostics`` and ``devops`` against a real server."""

import json
import re
from pathlib import Path

import pytest
import yaml

from cli.tests.program import Osb

pytestmark = pytest.mark.slow

LABEL = {"page": "test"}


def test_a_sandbox_is_made_shown_renewed_paused_resumed_and_ended(osb: Osb) -> None:
    made = json.loads(
        osb.print_(
            "sandbox", "create", "-i", "host", "-t", "5m", "-e", "A=b=c", "-m", "team=cli",
            "--resource", "cpu=500m", "--resource", "memory=256Mi", "-o", "json",
        )
    )  # fmt: skip
    sandbox_id = made["id"]
    assert (made["image"]["image"], made["metadata"]) == ("host", {"team": "cli"})
    assert (
        yaml.safe_load(osb.print_("sandbox", "get", sandbox_id, "-o", "yaml"))["id"] == sandbox_id
    )
    assert osb.print_("command", "run", sandbox_id, "--", "printenv", "A") == "b=c\n"

    renewed = json.loads(osb.print_("sandbox", "renew", sandbox_id, "-t", "2h", "-o", "json"))
    assert renewed["expires_at"] > made["expires_at"]
    assert osb.print_("sandbox", "pause", sandbox_id) == f"paused {sandbox_id}\n"
    assert "Paused" in osb.print_("sandbox", "list", "-s", "Paused", "-m", "team=cli")
    assert osb.print_("sandbox", "resume", sandbox_id) == f"resumed {sandbox_id}\n"
    assert "healthy  yes" in osb.print_("sandbox", "health", sandbox_id)
    assert osb.print_("sandbox", "kill", sandbox_id) == f"killed {sandbox_id}\n"
    gone = osb.run("sandbox", "get", sandbox_id)
    assert gone.returncode == 5


def test_lists_come_as_tables_pages_and_ids(osb: Osb) -> None:
    with osb.sandbox(metadata=LABEL) as first, osb.sandbox(metadata=LABEL) as second:
        table = osb.print_("sandbox", "list", "-m", "page=test")
        assert re.match(r"ID +STATE +IMAGE +AGE +ENDS IN +METADATA\n", table)
        assert first in table
        assert second in table
        assert osb.print_("sandbox", "list", "-m", "page=other", "-o", "raw") == ""
        page = osb.run("sandbox", "list", "-m", "page=test", "--page-size", "1")
        assert page.stderr == b"page 1 of 2, 2 in all; go on with --page 2\n"
        listed = json.loads(osb.print_("sandbox", "list", "-m", "page=test", "-o", "json"))
        assert {info["id"] for info in listed["sandbox_infos"]} == {first, second}
        assert listed["pagination"]["total_items"] == 2
        both = osb.print_("sandbox", "kill", first, second)
        assert both == f"killed {first}\nkilled {second}\n"


def test_a_request_from_a_file_gives_way_to_flags(osb: Osb) -> None:
    request = {
        "image": {"uri": "host"},
        "timeout": 300,
        "resourceLimits": {"cpu": "1"},
        "entrypoint": ["tail", "-f", "/dev/null"],
        "env": {"FROM": "file"},
        "metadata": {"from": "file"},
    }
    path = osb.home / "request.json"
    path.write_text(json.dumps(request))
    made = osb.print_("sandbox", "create", "-f", str(path), "-m", "from=flag", "-o", "raw").strip()
    try:
        info = json.loads(osb.print_("sandbox", "get", made, "-o", "json"))
        assert info["metadata"] == {"from": "flag"}
        assert osb.print_("command", "run", made, "--", "printenv", "FROM") == "file\n"
    finally:
        osb.run("sandbox", "kill", made)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ('{"imago": 1}', "no field 'imago'; there are: credentialProxy"),
        ('{"image": 7}', "request.json: image"),
    ],
)
def test_a_file_that_is_no_request_is_refused(osb: Osb, content: str, complaint: str) -> None:
    (osb.home / "request.json").write_text(content)
    done = osb.run("sandbox", "create", "-f", "request.json")
    assert done.returncode == 2
    assert complaint in done.stderr.decode()


def test_defaults_of_the_config_file_are_used(osb: Osb) -> None:
    osb.print_("config", "set", "defaults.image", "host")
    osb.print_("config", "set", "defaults.timeout", "none")
    made = json.loads(osb.print_("sandbox", "create", "-o", "json"))
    osb.print_("sandbox", "kill", made["id"])
    assert (made["image"]["image"], made["expires_at"]) == ("host", None)


def test_endpoints_and_metrics_are_shown(osb: Osb) -> None:
    with osb.sandbox() as made:
        address = osb.print_("sandbox", "endpoint", made, "-p", "8080", "-o", "raw")
        assert address.startswith(osb.domain)
        metrics = json.loads(osb.print_("sandbox", "metrics", made, "-o", "json"))
        assert metrics["memory_total_in_mib"] > 0


def test_diagnostics_come_as_text_and_as_json(osb: Osb) -> None:
    program = ["sh", "-c", "echo entrypoint here; exec sleep 1000"]
    with osb.sandbox(entrypoint=program) as made:
        osb.print_("command", "run", made, "--", "true")
        assert "entrypoint here" in osb.print_("diagnostics", "logs", made, "-s", "container")
        events = json.loads(osb.print_("diagnostics", "events", made, "-s", "all", "-o", "json"))
        assert "Created" in events["content"]
        assert "entrypoint here" in osb.print_("devops", "logs", made, "-n", "5", "-s", "10m")
        assert "Created" in osb.print_("devops", "events", made, "-l", "5")
        assert made in osb.print_("devops", "inspect", made)
        assert "== Logs" in osb.print_("devops", "summary", made)
        assert "entrypoint here" in osb.print_("logs", made)


NOT_BUILT = """
snapshot list
snapshot get S1
snapshot create ID --name n
template list
template delete T1
template create -i host -p registry/name
"""
NO_EGRESS = """
egress get ID
egress patch ID --rule allow=pypi.org
credential-vault delete ID
credential-vault credential list ID
credential-vault binding get ID NAME
"""


def test_what_the_server_does_not_have_is_said_in_one_line(osb: Osb) -> None:
    with osb.sandbox() as made:
        for words in NOT_BUILT.strip().splitlines():
            done = osb.run(*words.replace("ID", made).split())
            assert done.returncode == 6, words
            line = r"osb: This server has no \w+ yet; name another with --domain \[request \w+\]\n"
            assert re.fullmatch(line, done.stderr.decode()), words


def test_a_sandbox_without_egress_control_is_told_in_one_line(osb: Osb) -> None:
    with osb.sandbox() as made:
        for words in NO_EGRESS.strip().splitlines():
            done = osb.run("--use-server-proxy", *words.replace("ID", made).split())
            assert done.returncode != 0, words
            assert re.fullmatch(rb"osb: .*no egress.*\[request \w+\]\n", done.stderr), words


def test_a_rule_that_neither_allows_nor_denies_is_refused(osb: Osb) -> None:
    done = osb.run("egress", "patch", "any", "--rule", "permit=pypi.org")
    assert (done.returncode, b"--rule allow=pypi.org" in done.stderr) == (2, True)


def test_what_a_pipe_is_closed_on_ends_quietly(osb: Osb, tmp_path: Path) -> None:
    import subprocess

    with osb.sandbox() as made:
        program = " ".join([*osb.command, "exec", made, "--", "yes"])
        done = subprocess.run(
            ["bash", "-c", f"{program} | head -1; exit ${{PIPESTATUS[0]}}"],
            env=osb.environment,
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )
        listed = osb.run("sandbox", "list", "-o", "json")
    assert (done.stdout, done.stderr, done.returncode) == (b"y\n", b"", 141)
    assert listed.returncode == 0
