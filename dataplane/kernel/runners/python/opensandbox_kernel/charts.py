# SPDX-License-Identifier: Apache-2.0
"""Tells what a figure of matplotlib shows, as data beside its picture."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from IPython.core.formatters import BaseFormatter, DisplayFormatter
from traitlets import ObjectName, Unicode

CHART = "application/vnd.opensandbox.chart+json"
MAX_POINTS = 10_000
"""Bounds what is reported of one figure; one with more has only its picture."""


class ChartFormatter(BaseFormatter):
    """Asked, as one of IPython's own, for its form of every value that is shown.

    It knows figures by itself: who chooses the forms of pictures forgets what was registered.
    """

    format_type = Unicode(CHART)
    print_method = ObjectName("_repr_chart_")

    def __call__(self, obj: Any) -> dict[str, Any] | None:
        """Return a figure's data, once somebody has imported matplotlib."""
        figures = sys.modules.get("matplotlib.figure")
        is_figure = figures is not None and isinstance(obj, figures.Figure)
        return chart_of(obj) if is_figure and self.enabled else None


def tell_charts(formatter: DisplayFormatter) -> None:
    """Add data to figures."""
    formatter.formatters[CHART] = ChartFormatter(parent=formatter)


def chart_of(figure: Any) -> dict[str, Any] | None:
    """Return what a figure shows; None when that is more than anybody would read."""
    try:
        axes = [_axes(one) for one in figure.axes]
        title = getattr(figure, "get_suptitle", str)() or None  # matplotlib < 3.8 does not tell
    except Exception:  # noqa: BLE001 - code may draw whatever it likes, and has its picture
        return None
    points = sum(len(series["x"]) for one in axes for series in one["series"])
    return {"title": title, "axes": axes} if points <= MAX_POINTS else None


def _axes(axes: Any) -> dict[str, Any]:
    return {
        "title": axes.get_title() or None,
        "x_label": axes.get_xlabel() or None,
        "y_label": axes.get_ylabel() or None,
        "x_scale": axes.get_xscale(),
        "y_scale": axes.get_yscale(),
        "series": [*_lines(axes), *_scatters(axes), *_bars(axes)],
    }


def _lines(axes: Any) -> Iterator[dict[str, Any]]:
    for line in axes.lines:
        yield _series("line", line, line.get_xdata(orig=True), line.get_ydata(orig=True))


def _scatters(axes: Any) -> Iterator[dict[str, Any]]:
    from matplotlib.collections import PathCollection

    for dots in axes.collections:
        if isinstance(dots, PathCollection):
            x, y = dots.get_offsets().T
            yield _series("scatter", dots, _named(axes.xaxis, x), _named(axes.yaxis, y))


def _bars(axes: Any) -> Iterator[dict[str, Any]]:
    for bars in axes.containers:
        patches = getattr(bars, "patches", None)
        if not patches:
            continue
        if bars.orientation == "horizontal":
            x = [bar.get_width() for bar in patches]
            y = _named(axes.yaxis, [bar.get_y() + bar.get_height() / 2 for bar in patches])
        else:
            x = _named(axes.xaxis, [bar.get_x() + bar.get_width() / 2 for bar in patches])
            y = [bar.get_height() for bar in patches]
        yield _series("bar", bars, x, y)


def _named(axis: Any, places: Any) -> list[Any]:
    """Return places on an axis of categories by their names."""
    names = {place: name for name, place in getattr(axis.units, "_mapping", {}).items()}
    return [names.get(round(float(place), 9), place) for place in places]


def _series(kind: str, drawn: Any, x: Any, y: Any) -> dict[str, Any]:
    label = str(drawn.get_label() or "")
    return {
        "kind": kind,
        "label": None if label.startswith("_") else label or None,
        "x": [_plain(value) for value in x],
        "y": [_plain(value) for value in y],
    }


def _plain(value: Any) -> float | str | None:
    """Return a value as JSON has it: numbers, names, days and times; what is missing is null."""
    is_time = getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m")
    if isinstance(value, str) or is_time:
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
