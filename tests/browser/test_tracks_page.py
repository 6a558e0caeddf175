"""The page of `yolofast trackval` in a browser: charts, timelines and the tables of switches."""

import pytest

from tests.track.golden import GOLDEN
from yolofast.cli import main


@pytest.fixture
def page(watched, tmp_path):
    folder, path = GOLDEN / "multiclass", tmp_path / "tracks.html"
    results = str(folder / "results" / "all")
    assert main(["trackval", "--truth", str(folder / "gt"), "--results", results, "--html", str(path)]) == 0
    one = watched(offline=True)
    one.page.goto(path.as_uri())
    return one.page


def test_curves_and_timelines_are_drawn(page):
    assert page.locator("path.yf-line[data-points='19']").count() == 6  # four parts of HOTA, and HOTA of two sequences
    timelines = page.locator("figure.timeline")
    assert timelines.count() == 2
    rects = timelines.first.locator("rect.yf-part")
    assert rects.count() > 50
    box = rects.first.bounding_box()
    assert box["width"] > 1 and box["height"] > 4
    assert "result" in rects.first.locator("title").text_content()
    fills = rects.evaluate_all("parts => [...new Set(parts.map(part => getComputedStyle(part).fill))]")
    assert len(fills) > 2  # first, second result, missed


def test_switches_can_be_sorted_and_it_prints(page):
    section = page.locator("section").filter(has=page.get_by_role("heading", name="Where and why identities switched"))
    listing = section.locator("table").nth(1)
    before = listing.locator("tbody tr").first.inner_text()
    for _ in range(2):
        listing.get_by_role("button", name="covered").click()
    covered = [int(text) for text in listing.locator("tbody tr td:nth-child(8)").all_inner_texts()]
    assert covered == sorted(covered, reverse=True) and listing.locator("tbody tr").first.inner_text() != before
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    widest = "Math.max(...[...document.querySelectorAll('main *')].map(node => node.getBoundingClientRect().right))"
    assert page.evaluate(widest) <= 718
    assert page.pdf().startswith(b"%PDF")
