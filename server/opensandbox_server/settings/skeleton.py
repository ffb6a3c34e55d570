# SPDX-License-Identifier: Apache-2.0
"""Config files to start from: the examples, and a skeleton that explains every key."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from opensandbox_server.errors import StartupError
from opensandbox_server.settings.settings import Settings

EXAMPLES = {
    "oci": "oci",
    "docker": "docker",
    "docker-zh": "docker-zh",
    "kubernetes": "kubernetes",
    "k8s": "kubernetes",
    "k8s-zh": "k8s-zh",
}
_PLACE = Path(__file__).parent / "examples"


def write_config(path: Path, example: str | None, *, force: bool) -> None:
    """Write a config file only its owner can read. Raises StartupError when one is there."""
    text = (_PLACE / f"{EXAMPLES[example]}.toml").read_text("utf-8") if example else skeleton()
    if path.exists() and not force:
        raise StartupError(f"{path} exists; --force replaces it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise StartupError(f"cannot write {path}: {fault.strerror}") from fault


def skeleton() -> str:
    """Write every section and key with its meaning; each key is commented out at its default."""
    lines = [
        "# OpenSandbox server: every key at its default. Remove the # before those to change.",
        "",
    ]
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            lines += _section(name, section)
    lines += ["#[oci]", "# The keys of the embedded runtime are in its documentation.", ""]
    return "\n".join(lines)


def _section(name: str, section: type[BaseModel]) -> list[str]:
    return [f"[{name}]", *_comment((section.__doc__ or "").strip()), *_keys("", section), ""]


def _keys(prefix: str, section: type[BaseModel]) -> list[str]:
    lines: list[str] = []
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            lines += _keys(f"{prefix}{name}.", inner)
        else:
            lines += [*_comment(field.description or ""), f"#{prefix}{name} = {_value(field)}"]
    return lines


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent="# ", subsequent_indent="# ")


def _value(field: FieldInfo) -> str:
    default: Any = field.get_default(call_default_factory=False)
    if default is None:
        return "…  (not set)"
    if isinstance(default, Path):
        default = str(default)
    if isinstance(default, dict):
        return "{}"
    return json.dumps(list(default) if isinstance(default, tuple) else default)
