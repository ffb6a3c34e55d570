# SPDX-License-Identifier: Apache-2.0
"""The six languages, and results in all their forms."""

import pytest

from code_interpreter import CodeInterpreter, SupportedLanguage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

CELLS = {
    SupportedLanguage.PYTHON: ("x = 20", "x + 22", "missing", "NameError"),
    SupportedLanguage.JAVASCRIPT: ("let x = 20", "x + 22", "missing", "ReferenceError"),
    SupportedLanguage.TYPESCRIPT: ("let x: number = 20", "x + 22", "missing", "ReferenceError"),
    SupportedLanguage.JAVA: ("int x = 20;", "x + 22", "missing", "CompilationError"),
    SupportedLanguage.GO: ("x := 20", "x + 22", "missing", "CompilationError"),
    SupportedLanguage.BASH: ("x=20", "echo $((x + 22))", "exit 4", "CommandExecError"),
}

FIGURE = """
import matplotlib.pyplot as plt
fig, (above, below) = plt.subplots(2)
fig.suptitle("Weather")
above.set(title="Warmth", xlabel="day", ylabel="degrees")
above.plot([1, 2, 3], [10.5, 12, 11], label="here")
above.scatter([1, 2], [9, 8], label="there")
below.bar(["mon", "tue"], [3, 4], label="rain")
below.set_yscale("log")
"""


def test_every_language_has_cells() -> None:
    assert set(CELLS) == set(SupportedLanguage)


@pytest.mark.parametrize("language", SupportedLanguage)
async def test_a_language_keeps_state_gives_values_and_names_errors(
    everything: CodeInterpreter, language: SupportedLanguage
) -> None:
    codes = everything.codes
    keep, value, fail, name = CELLS[language]
    context = await codes.create_context(language)
    assert (await codes.run(keep, context=context)).error is None
    assert (await codes.run(value, context=context)).text.strip() == "42"
    failed = await codes.run(fail, context=context)
    assert failed.error is not None
    assert failed.error.name == name
    await codes.delete_context(str(context.id))


async def test_a_figure_is_a_picture_and_data(everything: CodeInterpreter) -> None:
    execution = await everything.codes.run(FIGURE)
    assert execution.error is None, execution.error
    figure = execution.result[-1]
    picture = figure._repr_png_()
    assert picture is not None
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    chart = figure.chart
    assert chart is not None
    assert chart.title == "Weather"
    above, below = chart.axes
    assert (above.title, above.x_label, above.y_label) == ("Warmth", "day", "degrees")
    line, dots = above.series
    assert (line.kind, line.label, line.x, line.y) == ("line", "here", [1, 2, 3], [10.5, 12, 11])
    assert (dots.kind, dots.label, dots.x, dots.y) == ("scatter", "there", [1, 2], [9, 8])
    assert below.y_scale == "log"
    (bars,) = below.series
    assert (bars.kind, bars.label, bars.x, bars.y) == ("bar", "rain", ["mon", "tue"], [3, 4])


async def test_days_names_and_gaps_are_data_too(everything: CodeInterpreter) -> None:
    code = """
import datetime, matplotlib.pyplot as plt
fig, (days, names) = plt.subplots(2)
days.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], [1.0, float("nan")])
names.barh(["a", "b"], [3, 4])
"""
    chart = (await everything.codes.run(code)).result[-1].chart
    assert chart is not None
    (line,), (bars,) = chart.axes[0].series, chart.axes[1].series
    assert (line.x, line.y) == (["2026-01-01", "2026-01-02"], [1, None])
    assert (bars.x, bars.y) == ([3, 4], ["a", "b"])


async def test_a_figure_of_too_many_points_is_a_picture_only(everything: CodeInterpreter) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot(range(20_000))\nNone"
    (figure,) = (await everything.codes.run(code)).result
    assert figure._repr_png_() is not None
    assert figure.chart is None


async def test_a_table_is_html_and_has_no_chart(everything: CodeInterpreter) -> None:
    code = "import pandas\npandas.DataFrame({'city': ['Bern'], 'people': [134_506]})"
    (table,) = (await everything.codes.run(code)).result
    assert table.text is not None
    assert "134506" in table.text
    assert "<td>Bern</td>" in (table._repr_html_() or "")
    assert table._repr_png_() is None
    assert table.chart is None


async def test_every_form_of_a_value_is_there_for_a_notebook(everything: CodeInterpreter) -> None:
    code = """
class Everything:
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "**markdown**"
    def _repr_latex_(self): return "$latex$"
    def _repr_svg_(self): return "<svg/>"
    def _repr_jpeg_(self): return b"jpeg"
    def _repr_json_(self): return {"a": [1, None]}
Everything()
"""
    (result,) = (await everything.codes.run(code)).result
    assert result._repr_html_() == "<b>html</b>"
    assert result._repr_markdown_() == "**markdown**"
    assert result._repr_latex_() == "$latex$"
    assert result._repr_svg_() == "<svg/>"
    assert result._repr_jpeg_() == b"jpeg"
    assert result._repr_json_() == {"a": [1, None]}
    assert result._repr_pdf_() is None


async def test_an_update_names_what_it_wants_the_place_of(everything: CodeInterpreter) -> None:
    code = "shown = display(1, display_id=True)\ndisplay(2)\nshown.update(3)"
    shown, other, update = (await everything.codes.run(code)).result
    assert (shown.text, other.text, update.text) == ("1", "2", "3")
    assert [one.is_update for one in (shown, other, update)] == [False, False, True]
    assert shown.display_id == update.display_id
    assert shown.display_id is not None
    assert other.display_id is None
    (later,) = (await everything.codes.run("shown.update(4)")).result
    assert (later.text, later.display_id) == ("4", shown.display_id)
