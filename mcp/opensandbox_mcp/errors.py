# SPDX-License-Identifier: Apache-2.0
"""Says what went wrong in one line: the code, what happened, the request id, what to do."""

from pydantic import ValidationError

from opensandbox.exceptions import SandboxApiException, SandboxError, SandboxException

# By the last part of a code: `OCI::SANDBOX_NOT_FOUND` and `SANDBOX_NOT_FOUND` are the same thing.
_ADVICE = {
    SandboxError.CONNECTION: "Check that the OpenSandbox server runs and that --domain names it.",
    SandboxError.TIMEOUT: "Try again, or raise --request-timeout-seconds.",
    SandboxError.READY_TIMEOUT: "Try again with a larger ready_timeout_seconds.",
    SandboxError.RATE_LIMIT: "Wait a moment and try again.",
    SandboxError.INVALID_ARGUMENT: "Correct the arguments and call again.",
    "MISSING_API_KEY": "Give the key by OPEN_SANDBOX_API_KEY or --api-key.",
    "INVALID_API_KEY": "Give the right key by OPEN_SANDBOX_API_KEY or --api-key.",
    "SANDBOX_NOT_FOUND": "It has ended or never was; make another, or call again for a workspace.",
    "SANDBOX_NOT_RUNNING": "A paused one needs sandbox_resume; sandbox_get_info tells its state.",
    "FILE_NOT_FOUND": "Look what is there with file_list.",
    "INVALID_REQUEST_BODY": "Correct the arguments and call again.",
    "BACKEND_CONNECTION_FAILED": "Nothing listens there; start it, or take another port.",
    "EGRESS_UNAVAILABLE": "This sandbox has no egress policy; create one with network_policy.",
}
_MISSING = "Check the id; it may have ended."
_LATER = "Try again in a moment."
_OTHERWISE = "Look at diagnostics_logs of the sandbox, or at the server's log by the request id."


def explain(error: SandboxException) -> str:
    """Return the line for an error of the client or the server."""
    message = (error.error.message or str(error)).rstrip(". ")
    request = f" (request {error.request_id})" if error.request_id else ""
    return one_line(f"[{error.error.code}] {message}{request}. {_advice(error)}")


def explain_arguments(tool: str, error: ValidationError) -> str:
    """Return the line for arguments that do not fit a tool."""
    problems = "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_input=False, include_url=False)
    )
    return one_line(
        f"[{SandboxError.INVALID_ARGUMENT}] {tool}: {problems}."
        " See the tool's input schema and call again."
    )


def one_line(text: str) -> str:
    """Return the text without line ends."""
    return " ".join(text.split())


def is_gone(error: BaseException) -> bool:
    """Whether the sandbox an error is about does not exist any more."""
    return isinstance(error, SandboxApiException) and _word(error) == "SANDBOX_NOT_FOUND"


def _advice(error: SandboxException) -> str:
    if known := _ADVICE.get(_word(error)):
        return known
    if isinstance(error, SandboxApiException) and error.status_code == 404:
        return _MISSING
    return _LATER if error.is_retryable else _OTHERWISE


def _word(error: SandboxException) -> str:
    return error.error.code.rpartition("::")[2]
