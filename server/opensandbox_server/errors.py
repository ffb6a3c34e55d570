# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as one tree.

OpenSandboxError                 everything below
├─ StartupError                  the server cannot start; the message is all an operator sees
│  ├─ SettingsError              a config file, key and reason
│  └─ PartEnded                  the server ends: it cannot be without something that has ended
└─ RequestRefused                an answer: code and status for programs, message for people
   ├─ MissingKey · WrongKey                                                           401
   ├─ InvalidParameter · InvalidMetadata · InvalidMetadataFilter · InvalidPort        400
   ├─ InvalidEntrypoint · InvalidExpiration · UnsupportedPool · UnsupportedVolume     400
   ├─ UnsupportedScope                                                                400
   ├─ ForeignOrigin                                                                   403
   ├─ SandboxNotFound · RouteNotFound                                                 404
   ├─ MethodNotAllowed                                                                405
   ├─ NotRunning · NotPaused · NoExpiration · IdempotencyConflict                     409
   ├─ BodyTooLarge                                                                    413
   ├─ UnknownHost                                                                     421
   ├─ ImageUnavailable · StartFault · PauseFault · ResumeFault · DeleteFault          500
   ├─ QueryFault · StoreFault · Unexpected                                            500
   ├─ NotBuilt: SnapshotsNotBuilt · TemplatesNotBuilt · PoolsNotBuilt                 501
   └─ RuntimeDown · IngressUnavailable · NotReady                                      503

A code that begins with `*::` gets the name of the runtime in its place: `OCI::SANDBOX_NOT_FOUND`.
"""

from __future__ import annotations

from typing import ClassVar


class OpenSandboxError(Exception):
    """Everything this server raises on purpose."""


class StartupError(OpenSandboxError):
    """The server cannot start, or a command cannot be done; the message says what to do."""


class SettingsError(StartupError):
    """A config file, a key and why its value is refused; one line for each."""


class PartEnded(StartupError):
    """Something without which the server is of no use has ended; sandboxes run on."""


class RequestRefused(OpenSandboxError):
    """A request that gets no answer but an error."""

    code: ClassVar[str] = "GENERAL::UNKNOWN_ERROR"
    status: ClassVar[int] = 500

    @property
    def message(self) -> str:
        """What people read."""
        return str(self) or "An unexpected error occurred."

    def code_for(self, runtime: str) -> str:
        """Return the code as the wire has it when this runtime makes the sandboxes."""
        return self.code.replace("*::", f"{runtime.upper()}::")


class MissingKey(RequestRefused):
    """The request has no API key."""

    code, status = "MISSING_API_KEY", 401


class WrongKey(RequestRefused):
    """The API key is not one of ours."""

    code, status = "INVALID_API_KEY", 401


class ForeignOrigin(RequestRefused):
    """The server needs no key, so a page from elsewhere may ask nothing."""

    code, status = "GENERAL::FOREIGN_ORIGIN", 403


class UnknownHost(RequestRefused):
    """The server needs no key and was called by a name that is not its own."""

    code, status = "GENERAL::UNKNOWN_HOST", 421


class InvalidParameter(RequestRefused):
    """A value has the right shape and cannot be honoured."""

    code, status = "SANDBOX::INVALID_PARAMETER", 400


class InvalidMetadata(RequestRefused):
    """A metadata key or value breaks the label grammar."""

    code, status = "SANDBOX::INVALID_METADATA_LABEL", 400


class InvalidMetadataFilter(RequestRefused):
    """The metadata filter of a list is not a query string."""

    code, status = "INVALID_METADATA_FORMAT", 400


class InvalidPort(RequestRefused):
    """There is no such port."""

    code, status = "*::INVALID_PORT", 400


class InvalidEntrypoint(RequestRefused):
    """The entrypoint cannot be the arguments of a program."""

    code, status = "*::INVALID_ENTRYPOINT", 400


class InvalidExpiration(RequestRefused):
    """The new end of life is not in the future, or further away than the server allows."""

    code, status = "*::INVALID_EXPIRATION", 400


class UnsupportedPool(RequestRefused):
    """Warm pools cannot be taken from yet."""

    code, status = "SANDBOX::UNSUPPORTED_POOL_REF", 400


class UnsupportedVolume(RequestRefused):
    """Volumes cannot be mounted yet."""

    code, status = "VOLUME::UNSUPPORTED_BACKEND", 400


class UnsupportedScope(RequestRefused):
    """Diagnostics have no such scope."""

    code, status = "DIAGNOSTICS_SCOPE_UNSUPPORTED", 400


class SandboxNotFound(RequestRefused):
    """There is no sandbox of that id, or there no longer is."""

    code, status = "*::SANDBOX_NOT_FOUND", 404

    def __init__(self, sandbox_id: str) -> None:
        """Name the sandbox."""
        super().__init__(f"Sandbox {sandbox_id} not found.")


class RouteNotFound(RequestRefused):
    """The API has no such path."""

    code, status = "GENERAL::ROUTE_NOT_FOUND", 404


class MethodNotAllowed(RequestRefused):
    """The path exists, the method does not."""

    code, status = "GENERAL::METHOD_NOT_ALLOWED", 405


class NotRunning(RequestRefused):
    """Only a running sandbox can do this."""

    code, status = "*::SANDBOX_NOT_RUNNING", 409


class NotPaused(RequestRefused):
    """Only a paused sandbox can do this."""

    code, status = "*::SANDBOX_NOT_PAUSED", 409


class NoExpiration(RequestRefused):
    """The sandbox lives until it is killed: there is nothing to renew."""

    code, status = "*::INVALID_EXPIRATION", 409


class IdempotencyConflict(RequestRefused):
    """The idempotency key was used before, for something else or for what is gone."""

    code, status = "SANDBOX::IDEMPOTENCY_CONFLICT", 409


class BodyTooLarge(RequestRefused):
    """No request of this API is that long."""

    code, status = "GENERAL::BODY_TOO_LARGE", 413


class ImageUnavailable(RequestRefused):
    """The image is not here and cannot be fetched."""

    code, status = "*::SANDBOX_IMAGE_PULL_FAILED", 500


class StartFault(RequestRefused):
    """The runtime could not start the sandbox; nothing of it is left."""

    code, status = "*::SANDBOX_START_FAILED", 500


class PauseFault(RequestRefused):
    """The runtime could not freeze the sandbox; it goes on running."""

    code, status = "*::SANDBOX_PAUSE_FAILED", 500


class ResumeFault(RequestRefused):
    """The runtime could not thaw the sandbox; it stays paused."""

    code, status = "*::SANDBOX_RESUME_FAILED", 500


class DeleteFault(RequestRefused):
    """The runtime could not end the sandbox; ending it can be tried again."""

    code, status = "*::SANDBOX_DELETE_FAILED", 500


class QueryFault(RequestRefused):
    """The runtime could not be asked about the sandbox."""

    code, status = "*::SANDBOX_QUERY_FAILED", 500


class StoreFault(RequestRefused):
    """The store cannot be read or written: a full disk, say."""

    code, status = "SANDBOX::INTERNAL_ERROR", 500


class Unexpected(RequestRefused):
    """A fault of ours; the log has it under the request id."""


class NotBuilt(RequestRefused):
    """Part of the contract that this version does not have yet."""

    code, status = "SANDBOX::API_NOT_SUPPORTED", 501


class SnapshotsNotBuilt(NotBuilt):
    """Snapshots come with a later version."""

    code = "SNAPSHOT::NOT_IMPLEMENTED"


class TemplatesNotBuilt(NotBuilt):
    """Templates come with a later version."""

    code = "FSB::API_NOT_SUPPORTED"


class PoolsNotBuilt(NotBuilt):
    """Pools come with a later version."""

    code = "KUBERNETES::POOL_NOT_SUPPORTED"


class RuntimeDown(RequestRefused):
    """The runtime itself does not work right now."""

    code, status = "*::INITIALIZATION_ERROR", 503


class IngressUnavailable(RequestRefused):
    """Ingress does not take routes right now."""

    code, status = "SANDBOX::INGRESS_UNAVAILABLE", 503


class NotReady(RequestRefused):
    """Something of the server does not work right now; the message names it."""

    code, status = "SERVER::NOT_READY", 503
