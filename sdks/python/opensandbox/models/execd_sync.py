# SPDX-License-Identifier: Apache-2.0
"""The same handlers for callers that do not await."""

from collections.abc import Callable

from pydantic import BaseModel

from opensandbox.models.execd import (
    ExecutionComplete,
    ExecutionError,
    ExecutionInit,
    ExecutionResult,
    OutputMessage,
)


class ExecutionHandlersSync(BaseModel):
    """What to call while a run goes on. With skip_accumulation nothing is kept in the Execution."""

    on_stdout: Callable[[OutputMessage], None] | None = None
    on_stderr: Callable[[OutputMessage], None] | None = None
    on_result: Callable[[ExecutionResult], None] | None = None
    on_execution_complete: Callable[[ExecutionComplete], None] | None = None
    on_error: Callable[[ExecutionError], None] | None = None
    on_init: Callable[[ExecutionInit], None] | None = None
    skip_accumulation: bool = False
