# SPDX-License-Identifier: Apache-2.0
"""Languages and contexts, which are the client's own."""

from opensandbox.models.code import CodeContext, SupportedLanguage

__all__ = ["CodeContext", "SupportedLanguage"]
