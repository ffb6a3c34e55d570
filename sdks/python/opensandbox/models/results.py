# SPDX-License-Identifier: Apache-2.0
"""The value of an expression, or what code displayed, in every form it has."""

import base64
import json
from typing import Any

from pydantic import BaseModel, Field

from opensandbox.models.charts import CHART_TYPE, Chart


class ExecutionResult(BaseModel):
    """The value of an expression; other representations than text by their media type.

    A notebook that gets one as the value of a cell shows it as the sandbox's own would.
    """

    text: str | None = None
    timestamp: int
    extra_properties: dict[str, str] = Field(default_factory=dict)
    """Other forms by media type: text as it is, bytes as base64, the rest as JSON."""
    display_id: str | None = None
    """Names a display that code may update."""
    is_update: bool = False
    """Wants the place of the earlier result with the same ``display_id``."""

    @property
    def chart(self) -> Chart | None:
        """What a chart shows, as data; None when this is no chart, or of a kind nobody reads."""
        found = self.extra_properties.get(CHART_TYPE)
        return None if found is None else Chart.model_validate_json(found)

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:  # noqa: ARG002
        printer.text(repr(self) if self.text is None else self.text)

    def _repr_html_(self) -> str | None:
        return self.extra_properties.get("text/html")

    def _repr_markdown_(self) -> str | None:
        return self.extra_properties.get("text/markdown")

    def _repr_latex_(self) -> str | None:
        return self.extra_properties.get("text/latex")

    def _repr_svg_(self) -> str | None:
        return self.extra_properties.get("image/svg+xml")

    def _repr_javascript_(self) -> str | None:
        return self.extra_properties.get("application/javascript")

    def _repr_png_(self) -> bytes | None:
        return self._bytes("image/png")

    def _repr_jpeg_(self) -> bytes | None:
        return self._bytes("image/jpeg")

    def _repr_pdf_(self) -> bytes | None:
        return self._bytes("application/pdf")

    def _repr_json_(self) -> Any:
        found = self.extra_properties.get("application/json")
        return None if found is None else json.loads(found)

    def _bytes(self, media: str) -> bytes | None:
        found = self.extra_properties.get(media)
        return None if found is None else base64.b64decode(found)
