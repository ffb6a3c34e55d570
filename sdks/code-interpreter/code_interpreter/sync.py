# SPDX-License-Identifier: Apache-2.0
"""The interpreter for callers that do not await."""

from code_interpreter._sync.interpreter import CodeInterpreterSync

__all__ = ["CodeInterpreterSync"]
