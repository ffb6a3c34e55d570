# SPDX-License-Identifier: Apache-2.0
"""The names that callers who do not await have for them; they are the same."""

from opensandbox.models.code import CodeContext as CodeContextSync
from opensandbox.models.code import SupportedLanguage as SupportedLanguageSync

__all__ = ["CodeContextSync", "SupportedLanguageSync"]
