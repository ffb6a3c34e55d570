# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as one line that names the next command to type, and as an exit code."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from opensandbox_cli.plain_text import without_controls

if TYPE_CHECKING:
    from opensandbox.exceptions import SandboxApiException, SandboxException


class ExitCode(IntEnum):
    """How ``osb`` ends when it does not end with the code of a command."""

    FAILED = 1
    """Anything without a code of its own."""
    USAGE = 2
    """A command line or config file that cannot work."""
    UNREACHABLE = 3
    """No server there, or no answer in time."""
    NOT_ALLOWED = 4
    """The server refused the key."""
    NOT_FOUND = 5
    """No such sandbox, command, file or other thing."""
    NOT_BUILT = 6
    """The server does not have this feature."""
    NOT_STARTED = 125
    """`run`, `exec` and `shell`: something failed before or beside the command."""


class CommandFault(Exception):
    """Something a person can fix; the message says how."""

    def __init__(self, message: str, exit_code: int = ExitCode.FAILED) -> None:
        """Say what is wrong and what to do about it."""
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(Exception):
    """A signal asked for the end, and everything that was started has been ended."""

    def __init__(self, signal_number: int) -> None:
        """Name the signal."""
        super().__init__(f"signal {signal_number}")
        self.exit_code = 128 + signal_number


@dataclass(frozen=True)
class Failure:
    """One line for people and a code for scripts."""

    line: str
    exit_code: int


def explain(error: Exception, server: str) -> Failure:
    """Say what went wrong in one line. ``server`` is where requests went."""
    from opensandbox.exceptions import (
        InvalidArgumentException,
        SandboxApiException,
        SandboxConnectionException,
        SandboxException,
        SandboxReadyTimeoutException,
        SandboxTimeoutException,
    )

    match error:
        case CommandFault():
            return Failure(str(error), error.exit_code)
        case SandboxApiException():
            return _explain_answer(error)
        case SandboxConnectionException() if not _is_nobody_there(error):
            advice = "see whether the sandbox lives with: osb sandbox list"
            return _failure(error, _message(error), advice, ExitCode.UNREACHABLE)
        case SandboxConnectionException():
            advice = "start one with: osb server, or name another with --domain"
            return _failure(error, f"no server at {server}", advice, ExitCode.UNREACHABLE)
        case SandboxTimeoutException():
            advice = "wait longer with --request-timeout, or look at it with: osb sandbox list"
            return _failure(error, f"no answer from {server}", advice, ExitCode.UNREACHABLE)
        case SandboxReadyTimeoutException():
            return _failure(error, _message(error), "wait longer with --ready-timeout")
        case InvalidArgumentException():
            return _failure(error, _message(error), "see --help", ExitCode.USAGE)
        case SandboxException():
            return _failure(error, _message(error), "")
        case OSError():
            return _explain_system(error)
    return Failure(
        f"{type(error).__name__}: {_one_line(str(error))}; run it again with -v and report it",
        ExitCode.FAILED,
    )


def _is_nobody_there(error: BaseException) -> bool:
    """Whether it comes from a connection that could not be made, and not from one that broke."""
    from httpx import ConnectError

    cause = error.__cause__
    return isinstance(cause, ConnectError) or (cause is not None and _is_nobody_there(cause))


def _explain_answer(error: SandboxApiException) -> Failure:
    message, code = _message(error), error.error.code
    match error.status_code:
        case 401 | 403 if "EGRESS" in message:
            # The token for that port is not for every client; the server has it.
            advice = "go through the server: osb --use-server-proxy ..."
            return _failure(error, message, advice, ExitCode.NOT_ALLOWED)
        case 401 | 403:
            advice = "give the key with: osb config set connection.api_key KEY"
            return _failure(error, message, advice, ExitCode.NOT_ALLOWED)
        case 404:
            return _failure(error, message, _where_to_look(code, message), ExitCode.NOT_FOUND)
        case 409:
            return _failure(error, message, "see its state with: osb sandbox get ID")
        case 429:
            return _failure(error, message, "try again later")
        case 501:
            advice = "name another with --domain"
            return _failure(error, message, advice, ExitCode.NOT_BUILT)
        case 400 | 422:
            return _failure(error, message, "see --help", ExitCode.USAGE)
        case 500 if "IMAGE" in code:
            return _failure(error, message, "")  # it says what to do; there is no sandbox yet
        case 500 | 502 | 503 | 504:
            return _failure(error, message, "look at it with: osb devops summary ID")
    return _failure(error, message, "")


def _where_to_look(code: str, message: str) -> str:
    said = f"{code} {message}".upper()
    for word, advice in (
        ("FILE", "list the directory with: osb exec ID -- ls -la"),
        ("SNAPSHOT", "list them with: osb snapshot list"),
        ("TEMPLATE", "list them with: osb template list"),
        ("COMMAND", "start it again with: osb command run ID -- CMD"),
        ("CONTEXT", "make a session with: osb command session create ID"),
    ):
        if word in said:
            return advice
    return "list sandboxes with: osb sandbox list"


def _explain_system(error: OSError) -> Failure:
    reason = error.strerror or str(error)
    where = f"{error.filename}: " if error.filename else ""
    advice = {
        errno.ENOENT: "check the path",
        errno.ENOSPC: "free some space or choose another place",
        errno.EACCES: "check the permissions",
        errno.EADDRINUSE: "choose another port",
    }.get(error.errno or 0, "")
    return Failure(_joined(f"{where}{reason}", advice), ExitCode.FAILED)


def _failure(
    error: SandboxException, message: str, advice: str, exit_code: int = ExitCode.FAILED
) -> Failure:
    request = f" [request {_one_line(error.request_id)}]" if error.request_id else ""
    return Failure(_joined(message, advice) + request, exit_code)


def _joined(message: str, advice: str) -> str:
    return "; ".join(part for part in (_one_line(message).rstrip(".; "), advice) if part)


def _message(error: SandboxException) -> str:
    return error.error.message or str(error)


def _one_line(text: str) -> str:
    return " ".join(without_controls(text).split())
