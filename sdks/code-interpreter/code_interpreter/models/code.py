# SPDX-License-Identifier: Apache-2.0
"""Languages and contexts, where the published package has them."""

from opensandbox.models.code import CodeContext, SupportedLanguage

__all__ = ["CodeContext", "SupportedLanguage"]
