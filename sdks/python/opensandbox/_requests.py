# SPDX-License-Identifier: Apache-2.0
"""Prepares requests: plain functions over plain values."""

import re
import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.code import CodeContext, SupportedLanguage
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.isolated import IsolatedRunOpts
from opensandbox.models.sandboxes import SandboxFilter, SnapshotFilter
from opensandbox.models.templates import TemplateFilter

Query = list[tuple[str, str]]

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def segment(value: object, what: str) -> str:
    """Quote a value for one segment of a path."""
    text = str(value)
    if not text.strip() or text in (".", ".."):
        raise InvalidArgumentException(f"{what} must not be blank")
    return quote(text, safe="")


def with_query(path: str, query: Query | None) -> str:
    """Return a path with its query behind it."""
    return f"{path}?{urlencode(query)}" if query else path


def sandbox_query(wanted: SandboxFilter) -> Query:
    """Return the query of a list. Metadata is a query string inside one parameter."""
    query: Query = [("state", state) for state in wanted.states or []]
    return query + _metadata(wanted.metadata) + _page(wanted.page, wanted.page_size)


def snapshot_query(wanted: SnapshotFilter) -> Query:
    """Return the query of a list of snapshots."""
    query: Query = []
    if wanted.sandbox_id is not None:
        query.append(("sandboxId", wanted.sandbox_id))
    if wanted.name is not None:
        query.append(("name", wanted.name))
    query += [("state", state) for state in wanted.states or []]
    return query + _page(wanted.page, wanted.page_size)


def template_query(wanted: TemplateFilter) -> Query:
    """Return the query of a list of templates."""
    return _metadata(wanted.metadata) + _page(wanted.page, wanted.page_size)


def _metadata(metadata: dict[str, str] | None) -> Query:
    return [("metadata", urlencode(metadata))] if metadata else []


def _page(page: int | None, page_size: int | None) -> Query:
    numbers = {"page": page, "pageSize": page_size}
    return [(name, str(number)) for name, number in numbers.items() if number is not None]


def run_body(command: str | Sequence[str], opts: RunCommandOpts) -> dict[str, Any]:
    """Return the body that runs shell text, or a program with its arguments."""
    fields: dict[str, Any] = {
        "cwd": opts.working_directory,
        "background": opts.background or None,
        "stdin": opts.stdin or None,
        "timeout": milliseconds(opts.timeout),
        "uid": opts.uid,
        "gid": opts.gid,
        "envs": opts.envs,
    }
    return {**_program(command), **_present(fields)}


def _program(command: str | Sequence[str]) -> dict[str, Any]:
    if isinstance(command, str):
        if not command.strip():
            raise InvalidArgumentException("command must not be blank")
        return {"command": command}
    argv = list(command)
    if not argv or not argv[0]:
        raise InvalidArgumentException("a command list needs a program first")
    if any("\0" in argument for argument in argv):
        raise InvalidArgumentException("arguments cannot contain NUL")
    return {"argv": argv}


def session_run_body(
    command: str, working_directory: str | None, timeout: timedelta | None
) -> dict[str, Any]:
    """Return the body that runs shell text in a session."""
    if not command.strip():
        raise InvalidArgumentException("command must not be blank")
    fields = {"cwd": working_directory, "timeout": milliseconds(timeout)}
    return {"command": command, **_present(fields)}


def isolated_run_body(code: str, opts: IsolatedRunOpts | None) -> dict[str, Any]:
    """Return the body that runs shell text in an isolated session."""
    if not code.strip():
        raise InvalidArgumentException("code must not be blank")
    return {"code": code, **(opts.to_wire() if opts else {})}


def context_body(
    language: str, working_directory: str | None, envs: dict[str, str] | None
) -> dict[str, Any]:
    """Return the body that starts an interpreter."""
    if not language.strip():
        raise InvalidArgumentException("language must not be blank; python, say")
    return {"language": str(language), **_present({"cwd": working_directory, "envs": envs})}


def code_body(
    code: str, language: str | None, context: CodeContext | None, timeout: timedelta | None
) -> dict[str, Any]:
    """Return the body that runs code in a context, or in the default one of a language."""
    if not code.strip():
        raise InvalidArgumentException("code must not be blank")
    if context is None:
        context = CodeContext(language=language or SupportedLanguage.PYTHON)
    elif language is not None and language != context.language:
        raise InvalidArgumentException(
            f"the context is of {context.language}, not {language}; leave the language out"
        )
    where = context.model_dump(exclude_none=True)
    return {"code": code, "context": where, **_present({"timeout": milliseconds(timeout)})}


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def milliseconds(timeout: timedelta | None) -> int | None:
    """Return a timeout as whole milliseconds, at least one."""
    if timeout is None:
        return None
    if timeout <= timedelta(0):
        raise InvalidArgumentException("timeout must be positive")
    return max(1, round(timeout / timedelta(milliseconds=1)))


def whole_seconds(timeout: timedelta | None) -> int | None:
    """Return a lifetime as whole seconds."""
    return None if timeout is None else int(timeout.total_seconds())


def set_env_command(name: str, value: str) -> str:
    """Return shell text that adds a variable to the file every later run reads."""
    if not _ENV_NAME.match(name):
        raise InvalidArgumentException(f"not a name for a variable: {name!r}")
    if "\0" in value:
        raise InvalidArgumentException("a variable cannot contain NUL")
    line = shlex.quote(f"{name}={_env_value(value)}")
    return (
        'if [ -z "${EXECD_ENVS:-}" ]; then echo "EXECD_ENVS is not set" >&2; exit 1; fi\n'
        'mkdir -p "$(dirname "$EXECD_ENVS")" && '
        f'printf "%s\\n" {line} >> "$EXECD_ENVS"'
    )


def _env_value(value: str) -> str:
    # Single quotes keep everything as it is, except a single quote.
    if "'" not in value:
        return f"'{value}'"
    for raw, escaped in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
        value = value.replace(raw, escaped)
    return f'"{value}"'


def read_cursor(header: str | None) -> int | None:
    """Read where the next stretch of output begins, if the header says so."""
    return int(header) if header and re.fullmatch("[0-9]{1,19}", header) else None


def download_query(path: str, offset: int | None, limit: int | None) -> Query:
    """Return the query of a download; offset and limit count lines."""
    query: Query = [("path", path)]
    if offset is not None:
        query.append(("offset", str(offset)))
    if limit is not None:
        query.append(("limit", str(limit)))
    return query
