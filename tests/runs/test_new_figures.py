"""A new metric is one row in `COLUMNS`, a new loss term needs none: both are then everywhere a run is shown."""

import csv
import json

import pytest

from tests.train.small_run import flags
from tests.watch.made_runs import make_run
from yolofast.cli import main
from yolofast.evaluate.drawing import curves_picture, panels_of
from yolofast.pages.elements import Figures, LineChart, Page
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.comparison_page import page_of
from yolofast.report.compare.read_folder import read_runs
from yolofast.report.run.run_page import report_page
from yolofast.runs import layout
from yolofast.runs.layout import Column
from yolofast.train.display import line_of
from yolofast.train.record import Recorder
from yolofast.watch.runs import Runs
from yolofast.watch.server import layout_script

pytestmark = pytest.mark.slow

F1 = Column(
    name="metrics/F1(B)", title="best F1", short="F1", source="metric", width=8, better="higher", drawn=True,
    of=lambda metrics: 0.25 + float(metrics.curves.f1.mean(axis=0).max()),
)  # fmt: skip
OWN_ROW = {"epoch": 0, "time": 2.0, "lr/pg0": 0.01, "img/s": 90.0, "data_wait": 0.1, "gpu_memory": 0.0}


def charts(page: Page) -> list[LineChart]:
    return [one for section in page.sections for one in section.elements if isinstance(one, LineChart)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with the metric in the table, what it has shown, and the table as it was then."""
    folder = tmp_path_factory.mktemp("metric")
    with pytest.MonkeyPatch.context() as patch:
        place = layout.COLUMNS.index(layout.MAP) + 1
        patch.setattr(layout, "COLUMNS", (*layout.COLUMNS[:place], F1, *layout.COLUMNS[place:]))
        patch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
        assert main(["train", *flags(folder, epochs=2)]) == 0
        yield folder / "runs" / "exp"


@pytest.fixture
def rows(trained):
    with (trained / "results.csv").open() as file:
        return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def test_is_recorded(trained, rows):
    assert all(row[F1.name] >= 0.25 for row in rows) and len(rows) == 2
    names = list(rows[0])
    assert names.index(F1.name) == names.index(layout.MAP.name) + 1
    assert F1.name in json.loads((trained / "summary.json").read_text())["best"]


def test_is_in_the_line_of_the_terminal(rows):
    shown = {cell.heading: cell.text for cell in line_of(rows[0])}
    assert shown["F1"] == f"{rows[0][F1.name]:.3f}" and list(shown).index("F1") == list(shown).index("mAP") + 1


def test_is_in_the_picture_of_the_curves(rows):
    above, below = panels_of(rows)
    assert F1.name in below and len(above) == len(below) + 1, "an odd number of metrics leaves a panel empty"
    assert curves_picture(rows).startswith(b"\x89PNG")


def test_is_in_the_report(trained, rows):
    page = report_page(trained)
    drawn = next(chart for chart in charts(page) if chart.title == F1.title)
    assert drawn.series[0].y == tuple(row[F1.name] for row in rows)
    figures = next(one for one in page.sections[0].elements if isinstance(one, Figures))
    assert dict(figures.items)[F1.title] >= 0.25


def test_is_compared(trained, tmp_path):
    other = make_run(tmp_path / "older", quality=2.0)  # made before the metric
    found = compare(read_runs([str(trained), str(other)]), CompareRequest())
    row = next(row for row in found.summary if row.name == F1.title)
    assert row.better == "higher" and row.values[0].mean >= 0.25 and row.values[1] is None
    assert F1.title in [chart.title for chart in charts(page_of(found))]


def test_is_watched(trained, rows):
    detail = Runs(trained.parent).detail("exp", "", 0, 0)
    place = detail["columns"].index(F1.name)
    assert [row[place] for row in detail["rows"]] == [row[F1.name] for row in rows]
    reported = next(line for line in layout_script().decode().splitlines() if line.startswith("export const METRICS"))
    shown = {"name": F1.name, "title": F1.title, "chart": F1.title, "better": 1}
    assert shown in json.loads(reported.partition("=")[2].rstrip(";"))


def test_terms_of_a_loss_need_no_row(tmp_path):
    """A model family with terms of its own, as its training leaves them."""
    losses = layout.losses_of(layout.TRAIN_LOSS, {"box": 0.5, "angle": 0.75})
    scores = {column.name: 0.5 for column in layout.metrics()}
    row = {**OWN_ROW, **losses, **scores, **layout.losses_of(layout.VAL_LOSS, {"box": 0.6, "angle": 0.9})}
    Recorder(tmp_path).epoch(row)
    heading = (tmp_path / "results.csv").read_text().splitlines()[0].split(",")
    assert heading[2:4] == ["train/box_loss", "train/angle_loss"] and "val/angle_loss" in heading
    assert [cell.heading for cell in line_of(row)][:3] == ["box", "angle", "P"]
    assert panels_of([row])[1][:2] == ["val/box_loss", "val/angle_loss"]
    titles = [chart.title for chart in charts(report_page(tmp_path))]
    assert "Loss: angle" in titles
    found = compare(read_runs([str(tmp_path)]), CompareRequest())
    assert {"train/angle", "val/angle"} <= {chart.title for chart in charts(page_of(found))}
