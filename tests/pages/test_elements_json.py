"""Charts as JSON: values as they are, gaps as null, long curves thinned without losing their peaks."""

import json
import math

import numpy as np
import pytest

from yolofast.pages.elements import Bar, BarChart, LineChart, Point, ScatterChart, Series, Table
from yolofast.pages.html import MOST_POINTS, chart_spec, thinned
from yolofast.pages.tables import chart_table


def test_a_line_chart():
    series = Series("a", (2, 1, 3), (0.5, math.nan, math.inf), low=(None, 0.1, 0.2), high=(1.0, 1.0, 1.0))
    spec = chart_spec(LineChart("title", "epoch", "loss", (series,), log_y=True, hint="hint"))
    assert spec == {
        "kind": "line", "title": "title", "x_label": "epoch", "y_label": "loss", "log_y": True, "hint": "hint",
        "x_names": (),
        "series": [{
            "name": "a", "group": "", "dashed": False,
            "x": [1, 2, 3], "y": [None, 0.5, None], "low": [0.1, None, 0.2], "high": [1.0, 1.0, 1.0],
        }],
    }  # fmt: skip
    json.dumps(spec, allow_nan=False)


def test_places_with_names():
    chart = LineChart("t", "setting", "share", (Series("a", (1.0, 2.0), (0.0, 1.0)),), x_names=("lr0", "map"))
    assert chart_spec(chart)["x_names"] == ("lr0", "map")
    assert chart_table(chart).columns == ("share at setting", "lr0", "map")


def test_points_and_bars():
    spec = chart_spec(ScatterChart("t", "h", "mAP", (Point("a", 1.0, math.nan, "g", best=True),)))
    assert spec["kind"] == "scatter" and spec["points"] == [
        {"name": "a", "x": 1.0, "y": None, "group": "g", "best": True, "short": ""}
    ]
    spec = chart_spec(BarChart("t", "ms", (Bar("a", (("x", 1.0), ("y", math.nan))),)))
    assert spec["kind"] == "bar" and spec["bars"] == [{"name": "a", "parts": [["x", 1.0], ["y", None]]}]


def test_numbers_of_numpy_can_be_written():
    x = tuple(np.arange(3))
    spec = chart_spec(LineChart("t", "x", "y", (Series("a", x, tuple(np.float32([1, 2, 3]))),)))
    assert json.loads(json.dumps(spec))["series"][0]["x"] == [0, 1, 2]


@pytest.mark.slow
def test_long_curves_keep_peaks_gaps_and_ends():
    y = np.random.default_rng(0).normal(0, 1, 300_000)
    y[123_456], y[200_001], y[77] = 50, -50, math.nan
    spec = chart_spec(LineChart("t", "x", "y", (Series("a", tuple(range(len(y))), tuple(y.tolist())),)))["series"][0]
    assert len(spec["x"]) == len(spec["y"]) <= MOST_POINTS + 2
    assert spec["x"] == sorted(spec["x"]) and spec["x"][0] == 0 and spec["x"][-1] == 299_999
    assert spec["y"][spec["x"].index(123_456)] == 50 and spec["y"][spec["x"].index(200_001)] == -50
    assert spec["y"][spec["x"].index(77)] is None


def test_short_curves_are_not_thinned():
    assert thinned([1.0, None, 2.0]) == [0, 1, 2] and thinned([]) == []


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(AssertionError):
        Series("a", (1.0, 2.0), (1.0,))
    with pytest.raises(AssertionError):
        Table(("a", "b"), (("one",),))
