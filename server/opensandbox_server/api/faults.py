# SPDX-License-Identifier: Apache-2.0
"""The one place where errors become answers."""

from __future__ import annotations

import logging

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from opensandbox_server.errors import (
    BodyTooLarge,
    InvalidParameter,
    MethodNotAllowed,
    NotBuilt,
    NotReady,
    RequestRefused,
    RouteNotFound,
    Unexpected,
)

log = logging.getLogger(__name__)


def fault_response(fault: RequestRefused, runtime_name: str) -> JSONResponse:
    """Return code and message with the status of the fault."""
    body = {"code": fault.code_for(runtime_name), "message": fault.message}
    return JSONResponse(body, fault.status)


async def answer_fault(request: Request, fault: Exception) -> JSONResponse:
    """Answer whatever a route raised."""
    if isinstance(fault, RequestValidationError):
        return JSONResponse({"detail": _details(fault)}, 422)
    headers = fault.headers if isinstance(fault, HTTPException) else None
    refusal, runtime_name = _as_refusal(request, fault), request.app.state.runtime_name
    request.state.error_code = refusal.code_for(runtime_name)
    response = fault_response(refusal, runtime_name)
    response.headers.update(headers or {})
    # What nobody expected is answered outside of everything that adds headers.
    response.headers["X-Request-ID"] = request.state.request_id
    return response


def _as_refusal(request: Request, fault: Exception) -> RequestRefused:
    match fault:
        case RequestRefused():
            if fault.status >= 500 and not isinstance(fault, NotBuilt | NotReady):
                log.warning("request %s: %s", request.state.request_id, fault, exc_info=fault)
            return fault
        case HTTPException(status_code=404):
            return RouteNotFound(f"There is no route {request.url.path}.")
        case HTTPException(status_code=405):
            return MethodNotAllowed(f"{request.method} is not a method of {request.url.path}.")
        case HTTPException(status_code=413):
            return BodyTooLarge(fault.detail)
        case HTTPException(status_code=400):
            return InvalidParameter("The body cannot be read.")
        case _:
            log.error("request %s failed", request.state.request_id, exc_info=fault)
            return Unexpected()


def _details(fault: RequestValidationError) -> list[dict[str, object]]:
    # Without the input: it may hold a password.
    return [{key: error[key] for key in ("loc", "msg", "type")} for error in fault.errors()]
