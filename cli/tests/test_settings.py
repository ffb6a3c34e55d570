# SPDX-License-Identifier: Apache-2.0
"""Flags win over the environment, which wins over the file."""

import json
import stat
import tomllib
from pathlib import Path

import pytest

from cli.tests.program import Osb
from opensandbox_cli.durations import parse_duration, short
from opensandbox_cli.failures import CommandFault
from opensandbox_cli.settings import load_settings, with_key

FILE = '[connection]\ndomain = "file:1"\nprotocol = "https"\n[defaults]\ntimeout = "15m"\n'
DOMAIN = "connection.domain"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    environ = {"OPEN_SANDBOX_DOMAIN": "environment:1"}

    def domain(flags: dict[str, object], environ: dict[str, str]) -> object:
        return load_settings(flags, environ, path, is_required=True).get(DOMAIN)

    assert domain({DOMAIN: "flag:1"}, environ) == "flag:1"
    assert domain({DOMAIN: None}, environ) == "environment:1"
    assert domain({}, {}) == "file:1"


def test_every_key_is_read_from_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    environ = {"OPEN_SANDBOX_USE_SERVER_PROXY": "yes", "OPEN_SANDBOX_REQUEST_TIMEOUT": "1m"}
    settings = load_settings({}, environ, path, is_required=True)
    assert settings.get("connection.use_server_proxy") is True
    assert settings.get("connection.request_timeout") == 60.0
    assert settings.get("connection.protocol") == "https"
    assert settings.get("defaults.timeout") == "15m"
    assert settings.get("defaults.image") is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[connection\n", "correct the file"),
        ('[connection]\nprotocol = "ftp"\n', "say http or https"),
        ('[defaults]\ntimeout = "soon"\n', "10m, 1h30m, 90s"),
        ('[output]\ncolor = "perhaps"\n', "say true or false"),
    ],
)
def test_a_file_that_cannot_work_is_named_with_the_reason(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(content)
    with pytest.raises(CommandFault, match=complaint) as caught:
        load_settings({}, {}, path, is_required=True)
    assert str(path) in str(caught.value)


def test_setting_a_key_leaves_the_other_lines() -> None:
    before = '# mine\n[connection]\n# domain = "example"\nprotocol = "http"\n\n[output]\n'
    after = with_key(before, "connection", "domain", '"there:1"')
    assert after == before.replace('# domain = "example"', 'domain = "there:1"')
    again = with_key(after, "connection", "domain", '"elsewhere:2"')
    assert tomllib.loads(again)["connection"]["domain"] == "elsewhere:2"
    added = with_key(again, "defaults", "image", '"host"')
    assert tomllib.loads(added)["defaults"] == {"image": "host"}
    assert "# mine" in added


def test_config_commands_make_change_and_show_the_file(lonely_osb: Osb) -> None:
    path = lonely_osb.home / "made" / "config.toml"
    config = ("--config", str(path), "config")
    assert lonely_osb.print_(*config, "init") == f"wrote {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = lonely_osb.run(*config, "init")
    assert (again.returncode, b"--force" in again.stderr) == (1, True)
    lonely_osb.print_(*config, "set", "defaults.image", "host")
    lonely_osb.print_(*config, "set", "connection.request_timeout", "45")
    shown = {
        row["key"]: row for row in json.loads(lonely_osb.print_(*config, "show", "-o", "json"))
    }
    assert shown["defaults.image"] == {
        "key": "defaults.image",
        "value": "host",
        "source": str(path),
    }
    assert shown["connection.request_timeout"]["value"] == 45.0
    assert shown["connection.domain"]["source"] == "$OPEN_SANDBOX_DOMAIN"
    assert lonely_osb.api_key not in str(shown)


def test_a_named_file_that_is_missing_is_an_error(lonely_osb: Osb) -> None:
    done = lonely_osb.run("--config", "nowhere.toml", "sandbox", "list")
    assert done.returncode == 2
    assert done.stderr == (
        b"osb: nowhere.toml does not exist; make it with: osb --config PATH config init\n"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("90s", 90), ("90", 90), ("1.5", 1.5), ("2d", 172800)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "m10", "-5", "0", "1h 30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_spans_are_shown_in_two_units_at_most() -> None:
    spans = ["59s", "10m", "1h30m", "2d", "1d1h"]
    assert [short(parse_duration(span)) for span in spans] == spans
