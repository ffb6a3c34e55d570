# SPDX-License-Identifier: Apache-2.0
"""What a picture of a chart shows, as data."""

from pydantic import BaseModel, Field

CHART_TYPE = "application/vnd.opensandbox.chart+json"
"""The media type of a chart among the forms of a result."""


class ChartSeries(BaseModel):
    """What was drawn by one call: as many values of y as of x."""

    kind: str
    """``line``, ``scatter`` or ``bar``."""
    label: str | None = None
    x: list[float | str | None] = Field(default_factory=list)
    y: list[float | str | None] = Field(default_factory=list)


class ChartAxes(BaseModel):
    """One pair of axes and what is drawn on it."""

    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    x_scale: str = "linear"
    y_scale: str = "linear"
    series: list[ChartSeries] = Field(default_factory=list)


class Chart(BaseModel):
    """A figure."""

    title: str | None = None
    axes: list[ChartAxes] = Field(default_factory=list)
