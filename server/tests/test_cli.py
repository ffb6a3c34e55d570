# SPDX-License-Identifier: Apache-2.0
"""The command line: help everywhere, errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from opensandbox_server.cli import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the operator's own files out of it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SANDBOX_CONFIG_PATH", raising=False)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["serve"],
        ["init-config"],
        ["doctor"],
        ["systemd-unit"],
        ["images"],
        ["images", "import"],
        ["images", "build"],
        ["images", "pull"],
        ["images", "list"],
        ["images", "remove"],
        ["migrate-snapshots"],
    ],
)
def test_every_command_explains_itself(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, "--help") == 0
    assert capsys.readouterr().out.startswith("usage: opensandbox-server")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "/none.toml"], "/none.toml: no such file"),
        (["serve", "--config", "/none.toml"], "/none.toml: no such file"),
        (["--config", "/none.toml", "doctor"], "/none.toml: no such file"),
        (["--reload"], "--reload is not supported"),
        (["--port", "65536"], "command line: server.port: Input should be less than or equal to"),
        (["migrate-snapshots", "--to", "x"], "sqlite only"),
        (
            ["--runtime", "docker", "--port", "0"],
            "there is no docker runtime here; installed: fake",
        ),
        (["--runtime", "k8s", "--port", "0"], "there is no kubernetes runtime here"),
        (["images", "import", "/none.tar"], "/none.tar: no such file"),
        (["images", "remove", "nothing"], "nothing"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("opensandbox-server: ")
    assert message in lines[0]


def test_every_bad_key_gets_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[server]\nport = -1\nprot = 1\n")
    assert run("--config", str(path)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(str(path) in line for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tenants]\nprovider = "file"', "tenants.provider: this version serves one owner only"),
        ('[store]\ntype = "postgresql"', "url: needed when type is postgres"),
        ('[secure_runtime]\ntype = "gvisor"', "secure_runtime.type"),
        ('[server]\ningress_user = "no-such-user"\nport = 0', "server.ingress_user"),
        ('[runtime]\ntype = "fake"\n[fake]\nx = 1\n[server]\nport = 0', "x: unknown key"),
    ],
)
def test_settings_that_load_and_cannot_be_served_are_refused_before_anything_is_made(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert run("--config", str(path), "--data-dir", str(tmp_path / "data")) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data" / "api_key").exists()


def test_init_config_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "config.toml"
    assert run("init-config", str(path), "--example", "docker") == 0
    assert "docker" in path.read_text()
    assert run("init-config", str(path)) == 1
    assert "--force" in capsys.readouterr().err
    assert run("init-config", str(path), "--force") == 0
    assert "[secure_runtime]" in path.read_text()


def test_init_config_takes_the_usual_place(tmp_path: Path) -> None:
    assert run("init-config", "--example", "k8s") == 0
    assert (tmp_path / ".sandbox.toml").exists()


@pytest.mark.parametrize("is_before", [True, False])
def test_doctor_tells_what_is_missing_and_what_fixes_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_before: bool,
) -> None:
    monkeypatch.setenv("OPENSANDBOX_BIN_DIR", str(tmp_path))
    flags = ["--runtime", "fake", "--data-dir", str(tmp_path / "own")]
    assert run(*([*flags, "doctor"] if is_before else ["doctor", *flags])) == 1
    shown = capsys.readouterr().out
    assert "missing  ingress" in shown
    assert "fix: make build" in shown
    assert f"ok       data directory: {tmp_path / 'own'} can be written" in shown


def test_images_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("images", "list", "--data-dir", str(tmp_path)) == 0
    assert "NAME" in capsys.readouterr().out
