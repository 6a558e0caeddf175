"""Pages of the page kit (`report.html`, `compare.html`) opened from the disk, without any network."""

import cv2
import numpy as np
import pytest

from yolofast.pages.elements import (
    Bar,
    BarChart,
    Callout,
    Code,
    LineChart,
    Matrix,
    Page,
    Paragraph,
    Picture,
    Point,
    ScatterChart,
    Section,
    Series,
    Table,
)
from yolofast.pages.html import render_page
from yolofast.profile.step_phases import ORDER

EVIL = '</script><img src=x onerror="window.harmed=1;alert(1)"><script>window.harmed=1</script>\'&'


def page_of(name: str) -> Page:
    curves = tuple(
        Series(f"{name} {i}", tuple(range(60)), tuple((1 + i) / (1 + x) for x in range(60)), dashed=i == 1)
        for i in range(2)
    )
    points = (Point("a", 1.0, 0.4, best=True), Point(name, 2.0, 0.5, best=True), Point("c", 3.0, 0.2))
    bars = (Bar("a", (("forward", 3.0), ("backward", 6.0))), Bar(name, (("forward", 2.0), ("backward", 5.0))))
    picture = cv2.imencode(".png", np.zeros((20, 30, 3), np.uint8))[1].tobytes()
    charts = (
        LineChart("Losses", "epoch", "loss", curves, log_y=True),
        ScatterChart("Pareto front", "hours", "mAP", points),
        BarChart("Phases", "ms", bars),
    )
    table = Table(("run", "mAP"), ((name, 0.2), ("b", 0.3), ("c", None)), sortable=True)
    texts = (Paragraph(name), Callout("warn", name), Code(name), table, Picture(picture, "png", name, name))
    return Page(name, name, (Section("Charts", charts), Section(name, texts)))


@pytest.fixture
def opened(watched, tmp_path):
    def open_page(title="compare", **options):
        path = tmp_path / "compare.html"
        path.write_text(render_page(page_of(title)), encoding="utf-8")
        one = watched(offline=True, **options)
        one.requests = []
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.goto(path.as_uri())
        return one

    return open_page


def test_charts_draw_and_nothing_else_is_asked_for(opened):
    one = opened()
    page = one.page
    lines = page.locator("path.yf-line[data-points]")
    assert lines.count() == 2
    assert all(int(lines.nth(i).get_attribute("data-points")) > 30 for i in range(2))
    assert page.locator("circle.yf-point").count() == 3 and page.locator("rect.yf-part").count() == 4
    assert page.locator(".picture img").evaluate("image => image.naturalWidth") == 30
    assert [address for address in one.requests if not address.startswith("data:")] == [page.url]


def test_pointing_hiding_and_sorting(opened):
    page = opened().page
    chart = page.locator(".yf-svg").first
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    assert "epoch" in page.locator(".yf-tip").first.inner_text()
    page.get_by_role("button", name="compare 1", exact=True).click()
    assert page.locator("path.yf-line[data-points]").count() == 1
    page.locator("button.sort").nth(1).click()
    page.locator("button.sort").nth(1).click()
    assert page.locator("tbody tr td:first-child").all_inner_texts()[-3:][0] in ("b", "c")


def test_hostile_text_stays_text(opened):
    page = opened(EVIL).page
    assert page.locator("h1").inner_text() == EVIL
    assert page.evaluate("window.harmed") is None and page.locator("img[src=x]").count() == 0
    assert page.locator("path.yf-line[data-points]").count() == 2


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_by_wish_and_by_choice(opened):
    page = opened(color_scheme="dark").page
    dark = background(page)
    page.click("#theme")
    assert background(page) == "rgb(255, 255, 255)" != dark
    page.emulate_media(color_scheme="light")
    page.click("#theme")
    assert background(page) == dark


def test_it_prints_on_white(opened):
    page = opened(color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == "rgb(255, 255, 255)" and not page.locator("#theme").is_visible()
    assert page.pdf().startswith(b"%PDF")


PAPER = 718
"""CSS pixels of A4 between Chromium's margins."""


def test_nothing_is_wider_than_the_paper(watched, tmp_path):
    """Runs with long values, as in a comparison, and a matrix of 20 classes, as in a report."""
    runs = [f"a_run_with_quite_a_long_name_{i}" for i in range(4)]
    values = tuple(f"/a/folder/without/any/space/in/its/name/{i}/data.yaml" for i in range(4))
    rows = tuple((f"setting_{i}", *values) for i in range(60))
    names = tuple(f"class number {i}" for i in range(21))
    counts = tuple(tuple(float(1000 * (i == j)) for j in range(21)) for i in range(21))
    compared = tuple((f"precision {i}", *(0.1234, "+12.3 %") * 8) for i in range(5))
    elements = (
        Table(("setting", *runs), rows),
        Matrix("Confusion", "predicted", "true", names, names, counts),
        Table(("", *(name for run in runs * 2 for name in (run, "change"))), compared),
        Table(("setting", *runs * 6), tuple((f"setting_{i}", *values * 6) for i in range(3))),
    )
    path = tmp_path / "wide.html"
    path.write_text(render_page(Page("wide", "", (Section("What differs", elements),))), encoding="utf-8")
    page = watched(offline=True).page
    page.goto(path.as_uri())
    assert page.evaluate(CUT_OFF, ".matrix .scroll") == [0]  # on the screen, all rows without scrolling
    page.set_viewport_size({"width": PAPER, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate(WIDEST) <= PAPER
    assert page.evaluate(CUT_OFF, ".scroll") == [0] * 4
    word = page.get_by_text("precision 0")
    assert word.evaluate("cell => getComputedStyle(cell).overflowWrap") == "break-word"  # whole words where they fit
    assert page.locator("tbody td").first.evaluate("cell => getComputedStyle(cell).fontSize") == "9px"


WIDEST = "Math.max(...[...document.querySelectorAll('main *')].map(node => node.getBoundingClientRect().right))"
CUT_OFF = "name => [...document.querySelectorAll(name)].map(node => node.scrollHeight - node.clientHeight)"


def test_eight_curves_can_be_distinguished(watched, tmp_path):
    names = [f"runs/train/a_long_name_of_a_run_{i}" for i in range(4)]
    series = [
        Series(f"{name}{more}", (1, 2), (0.1, 0.2), dashed=bool(more), group=name)
        for name in [*names, *(name + "x" for name in names)]
        for more in ("", ", validation")
    ]
    path = tmp_path / "curves.html"
    chart = LineChart("Losses", "epoch", "loss", tuple(series))
    path.write_text(render_page(Page("curves", "", (Section("Curves", (chart,)),))), encoding="utf-8")
    page = watched(offline=True).page
    page.goto(path.as_uri())
    looks = page.locator("path.yf-line[data-points]").evaluate_all(
        "lines => lines.map(line => getComputedStyle(line)).map(style => style.stroke + style.strokeDasharray)"
    )
    assert len(looks) == len(set(looks)) == 16
    assert page.evaluate(CUT_OFF, ".yf-legend") == [0]


FILLS = "parts => parts.map(part => getComputedStyle(part).fill)"


def test_every_phase_of_a_step_has_a_colour_of_its_own(watched, tmp_path):
    """On the screen, light and dark, on paper, and in the legend; curves keep to the eight they are dashed for."""
    bars = BarChart("Phases", "ms", (Bar("eager", tuple((name, 1.0) for name in ORDER)),))
    curves = LineChart("Losses", "epoch", "loss", tuple(Series(name, (1, 2), (1.0, 2.0)) for name in ORDER))
    path = tmp_path / "phases.html"
    path.write_text(render_page(Page("phases", "", (Section("Time", (bars, curves)),))), encoding="utf-8")
    page = watched(offline=True).page
    page.goto(path.as_uri())
    seen = []
    for look in ({"color_scheme": "light"}, {"color_scheme": "dark"}, {"media": "print"}):
        page.emulate_media(**look)
        fills = page.locator("rect.yf-part").evaluate_all(FILLS)
        assert len(set(fills)) == len(ORDER) and page.locator(".yf-entry rect").evaluate_all(FILLS) == fills
        seen.append(fills)
    assert seen[0] == seen[2] != seen[1]  # paper is light
    assert page.locator(".yf-line.yf-c7[data-points]").count() == 1
    assert page.locator(".yf-line.yf-c8").count() == 0


def test_names_of_points_do_not_cover_one_another(watched, tmp_path):
    """Twelve runs of almost the same hours and accuracy, and two apart from them."""
    crowd = [Point(f"a_long_name_{i}", 1.0 + i / 200, 0.3 + (i % 4) / 400) for i in range(12)]
    points = (*crowd, Point("cheap", 0.5, 0.2, best=True), Point("best", 1.5, 0.4, best=True))
    path = tmp_path / "points.html"
    chart = ScatterChart("accuracy and time", "hours", "mAP", points)
    path.write_text(render_page(Page("points", "", (Section("Money", (chart,)),))), encoding="utf-8")
    page = watched(offline=True).page
    page.goto(path.as_uri())
    names = page.locator("text.yf-of-point")
    assert {"cheap", "best"} < set(names.all_text_contents()) and names.count() < len(points)
    boxes = [names.nth(place).bounding_box() for place in range(names.count())]
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert any(
                one[at] + one[size] <= other[at] + 1 or other[at] + other[size] <= one[at] + 1
                for at, size in (("x", "width"), ("y", "height"))
            )
    page.locator("circle.yf-point").nth(5).hover(force=True)
    assert "a_long_name_" in page.locator(".yf-tip").inner_text()
