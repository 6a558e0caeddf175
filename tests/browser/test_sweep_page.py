"""The page of `yolofast tracksweep` in a browser: fronts, effects, and the tables of settings."""

import pytest

from tests.track.sweep.made_up import write_folder
from yolofast.cli import main


@pytest.fixture
def page(watched, tmp_path):
    folder, path = write_folder(tmp_path, frames=30), tmp_path / "sweep.html"
    flags = ["--detections", str(folder / "detections"), "--truth", str(folder / "truth"), "--workers", "1"]
    search = ["--set", "tracker=bytetrack,ocsort", "match_thresh=0.5,0.7,0.9", "conf=0.1,0.4", "max_age=5,30"]
    assert main(["tracksweep", *flags, *search, "--output", str(tmp_path / "out"), "--html", str(path)]) == 0
    one = watched(offline=True)
    one.page.goto(path.as_uri())
    return one.page


def test_fronts_effects_and_tables(page):
    assert page.get_by_role("heading", name="The best setting", exact=True).is_visible()
    assert "build_tracker" in page.locator("pre").first.inner_text()
    effects = page.locator("section").filter(has=page.get_by_role("heading", name="What each setting does"))
    assert effects.locator("path.yf-line[data-points='3']").count() == 2  # mean and best over match_thresh
    assert "greatest cost a match may have" in effects.inner_text()
    trade_offs = page.locator("section").filter(has=page.get_by_role("heading", name="Trade-offs"))
    points = trade_offs.locator("circle.yf-point")
    assert points.count() == 2 * 11  # ten settings and the defaults of ByteTrack, two charts
    assert trade_offs.locator("circle.yf-best").count() >= 2
    assert len({points.nth(place).bounding_box()["x"] for place in range(10)}) > 3


def test_settings_can_be_sorted_and_it_prints(page):
    section = page.locator("section").filter(has=page.get_by_role("heading", name="The best settings", exact=True))
    listing = section.locator("table")
    assert listing.locator("tbody tr").count() == 11
    column = listing.locator("thead th").all_inner_texts().index("IDSW") + 1
    listing.get_by_role("button", name="IDSW").click()
    values = [int(text) for text in listing.locator(f"tbody tr td:nth-child({column})").all_inner_texts()]
    assert values == sorted(values) or values == sorted(values, reverse=True)
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    widest = "Math.max(...[...document.querySelectorAll('main *')].map(node => node.getBoundingClientRect().right))"
    assert page.evaluate(widest) <= 718
    assert page.pdf().startswith(b"%PDF")
