# SPDX-License-Identifier: Apache-2.0
"""Interpreters that stay: their languages and names."""

from enum import StrEnum

from pydantic import BaseModel, field_validator


class SupportedLanguage(StrEnum):
    """Languages that every code interpreter knows; an image may have others, by their name."""

    PYTHON = "python"
    JAVA = "java"
    GO = "go"
    TYPESCRIPT = "typescript"
    BASH = "bash"
    JAVASCRIPT = "javascript"


class CodeContext(BaseModel):
    """An interpreter that stays; without an id, the default one of its language."""

    id: str | None = None
    language: str

    @field_validator("language")
    @classmethod
    def _require_language(cls, language: str) -> str:
        if not language.strip():
            raise ValueError("language must not be blank")
        return language
