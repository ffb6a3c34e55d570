# SPDX-License-Identifier: Apache-2.0
"""Where the server is and what is wanted by default: flags, then environment, then config file."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opensandbox_cli.durations import parse_duration
from opensandbox_cli.failures import CommandFault, ExitCode

DEFAULT_PATH = Path("~/.opensandbox/config.toml")

TEMPLATE = """\
# Settings of osb. Flags and environment variables win over this file.

[connection]
# api_key = "the key that the server printed at its first start"
# domain = "localhost:8080"
# protocol = "http"
# request_timeout = 30
# use_server_proxy = false

[output]
# color = true

[defaults]
# image = "host"
# timeout = "10m"
"""


def _flag(value: object) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("say true or false")


def _protocol(value: object) -> str:
    text = str(value).strip().lower()
    if text not in ("http", "https"):
        raise ValueError("say http or https")
    return text


def _seconds(value: object) -> float:
    return parse_duration(str(value)).total_seconds()


def _lifetime(value: object) -> str:
    text = str(value).strip()
    if text != "none":
        parse_duration(text)
    return text


@dataclass(frozen=True)
class Key:
    """One setting: how its text is read and which variable has it."""

    read: Callable[[object], Any]
    variable: str = ""


KEYS: Mapping[str, Key] = {
    "connection.api_key": Key(str, "OPEN_SANDBOX_API_KEY"),
    "connection.domain": Key(str, "OPEN_SANDBOX_DOMAIN"),
    "connection.protocol": Key(_protocol, "OPEN_SANDBOX_PROTOCOL"),
    "connection.request_timeout": Key(_seconds, "OPEN_SANDBOX_REQUEST_TIMEOUT"),
    "connection.use_server_proxy": Key(_flag, "OPEN_SANDBOX_USE_SERVER_PROXY"),
    "output.color": Key(_flag),
    "defaults.image": Key(str),
    "defaults.timeout": Key(_lifetime),
}


@dataclass(frozen=True)
class Setting:
    """A value and where it came from."""

    value: Any
    source: str


@dataclass(frozen=True)
class Settings:
    """Everything that is set; what is not is left to the client."""

    path: Path
    known: Mapping[str, Setting]

    def get(self, key: str) -> Any:
        """Return a value, or None when nothing sets it."""
        found = self.known.get(key)
        return found.value if found else None


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    path: Path | None,
    *,
    is_required: bool,
) -> Settings:
    """Collect the settings, of the file too when there is one or when it ``is_required``."""
    chosen = (path or DEFAULT_PATH).expanduser()
    tables = _read(chosen, is_required=is_required)
    known: dict[str, Setting] = {}
    for name, key in KEYS.items():
        if flags.get(name) is not None:
            known[name] = Setting(flags[name], "flag")
        elif key.variable and environ.get(key.variable):
            value = _checked(name, environ[key.variable], f"${key.variable}")
            known[name] = Setting(value, f"${key.variable}")
        elif (written := _lookup(tables, name)) is not None:
            known[name] = Setting(_checked(name, written, str(chosen)), str(chosen))
    return Settings(chosen, known)


def _read(path: Path, *, is_required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        if is_required:
            advice = "make it with: osb --config PATH config init"
            raise CommandFault(f"{path} does not exist; {advice}", ExitCode.USAGE) from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFault(f"{path}: {error}; correct the file", ExitCode.USAGE) from error


def _lookup(tables: Mapping[str, Any], name: str) -> object:
    section, _, key = name.partition(".")
    table = tables.get(section)
    return table.get(key) if isinstance(table, dict) else None


def _checked(name: str, value: object, source: str) -> Any:
    try:
        return KEYS[name].read(value)
    except ValueError as error:
        raise CommandFault(f"{source}: {name} is {value!r}: {error}", ExitCode.USAGE) from None


def write_setting(path: Path, name: str, text: str) -> None:
    """Set one key in the file; its other lines stay as they are."""
    if name not in KEYS:
        known = ", ".join(KEYS)
        raise CommandFault(f"no setting {name!r}; there are: {known}", ExitCode.USAGE)
    value = _checked(name, text, "command line")
    content = path.read_text() if path.exists() else TEMPLATE
    section, _, key = name.partition(".")
    written = json.dumps(value, ensure_ascii=False)  # a JSON string, number or flag is TOML too
    write_private(path, with_key(content, section, key, written))
    _read(path, is_required=True)


def with_key(content: str, section: str, key: str, written: str) -> str:
    """Return a config file's text with ``key = written`` in its section."""
    lines = content.splitlines()
    header = f"[{section}]"
    if header not in (line.strip() for line in lines):
        lines += ["", header]
    start = next(n for n, line in enumerate(lines) if line.strip() == header) + 1
    end = next((n for n in range(start, len(lines)) if lines[n].lstrip().startswith("[")), None)
    stop = len(lines) if end is None else end
    pattern = re.compile(rf"\s*#?\s*{re.escape(key)}\s*=")
    # A line that sets it wins over a comment that shows how to.
    matching = [n for n in range(start, stop) if pattern.match(lines[n])]
    matching.sort(key=lambda n: lines[n].lstrip().startswith("#"))
    if matching:
        lines[matching[0]] = f"{key} = {written}"
    else:
        lines.insert(start, f"{key} = {written}")
    return "\n".join(lines) + "\n"


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner reads, whole or not at all: there is a key in it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    temporary.replace(path)
