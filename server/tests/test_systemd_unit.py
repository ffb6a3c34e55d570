# SPDX-License-Identifier: Apache-2.0
"""The unit of systemd that the server prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from opensandbox_server.cli import main
from tests.harness.server import serving

NEEDS_MOUNTS_OF_ITS_OWN = {
    "bindpaths",
    "inaccessiblepaths",
    "privatedevices",
    "privatemounts",
    "privatetmp",
    "protectcontrolgroups",
    "protecthome",
    "protectkernellogs",
    "protectkernelmodules",
    "protectkerneltunables",
    "protectproc",
    "protectsystem",
    "readonlypaths",
}


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the operator's own files out of it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SANDBOX_CONFIG_PATH", "OPENSANDBOX_BIN_DIR"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[str, ConfigParser]:
    with pytest.raises(SystemExit) as end:
        main(["systemd-unit", *flags])
    assert not end.value.code
    text = capsys.readouterr().out
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    return text, parser


def test_a_unit_serves_what_is_chosen_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[server]\ndata_dir = "data"\ntimeout_graceful_shutdown = 100\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENSANDBOX_BIN_DIR", "programs")
    monkeypatch.setenv("OPENSANDBOX_SERVER_API_KEY", "a secret")
    text, unit = printed(capsys, "--config", "config.toml", "--port", "8090")
    service = unit["Service"]
    assert service["ExecStart"].split() == [
        *(sys.executable, "-P", "-m", "opensandbox_server", "serve", "--config", str(config)),
        *("--data-dir", str(tmp_path / "data"), "--port", "8090"),
    ]
    assert service["Environment"] == f"OPENSANDBOX_BIN_DIR={tmp_path / 'programs'}"
    assert unit["Unit"]["RequiresMountsFor"] == str(tmp_path / "data")
    assert int(service["TimeoutStopSec"]) > 200, "ingress has its time, and the API after it"
    assert "a secret" not in text, "everybody may read a unit"


def test_under_a_unit_sandboxes_outlive_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    _, unit = printed(capsys)
    service = unit["Service"]
    assert service["KillMode"] == "process"
    assert service["Delegate"] == "yes"
    assert service["Restart"] == "on-failure"
    assert service["OOMScoreAdjust"] == "-500"
    assert service["TasksMax"] == "infinity"
    assert int(service["LimitNOFILE"]) >= 65536
    assert "environment" not in service
    assert not NEEDS_MOUNTS_OF_ITS_OWN & set(service), "sandboxes are made of what it can mount"


def test_a_key_that_is_made_does_not_get_into_the_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, unit = printed(capsys)
    assert (unit["Service"]["StandardOutput"], unit["Service"]["StandardError"]) == (
        "null",
        "journal",
    )
    quiet = ("sh", "-c", 'exec "$@" >/dev/null', "sh")
    with serving(tmp_path / "data", "--runtime", "fake", key=None, around=quiet) as server:
        assert (tmp_path / "data" / "api_key").read_text().strip() not in server.log


@pytest.mark.parametrize("name", ["plain", "two words", "100%u", "$HOME ${HOME}", 'a"b\\c', ";"])
def test_systemd_reads_any_path_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here")
    data_dir = tmp_path / name
    text, _ = printed(capsys, "--data-dir", str(data_dir))
    file = tmp_path / "opensandbox.service"
    file.write_text(text)
    done = subprocess.run([analyze, "verify", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_that_no_unit_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["systemd-unit", "--data-dir", "/two\nlines"])
    assert end.value.code == 1
    assert "cannot be written into a unit" in capsys.readouterr().err
