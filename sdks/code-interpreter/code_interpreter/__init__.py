# SPDX-License-Identifier: Apache-2.0
"""Code that keeps its state, in a sandbox of OpenSandbox."""

from code_interpreter._async.interpreter import CodeInterpreter
from code_interpreter._sync.interpreter import CodeInterpreterSync
from code_interpreter._version import __version__
from opensandbox.models.code import CodeContext, SupportedLanguage

__all__ = [
    "CodeContext",
    "CodeInterpreter",
    "CodeInterpreterSync",
    "SupportedLanguage",
    "__version__",
]
