"""A page is one file that needs nothing and runs nothing but its own scripts, whatever the names in it are."""

import base64
import hashlib
import json
import re

import numpy as np

from tests.pages.whole_page import HOSTILE, Reader, texts_of, whole_page
from yolofast.pages.elements import Code, LineChart, Page, Paragraph, Picture, Section, Series, Table
from yolofast.pages.html import render_page, web_file
from yolofast.pages.text import printable


def test_hostile_text_leaves_the_structure_as_it_is():
    plain, hostile = Reader(render_page(whole_page())), Reader(render_page(whole_page(HOSTILE)))
    assert plain.tags == hostile.tags
    assert [one[:2] for one in plain.attributes] == [one[:2] for one in hostile.attributes]
    assert plain.inside["style"] == hostile.inside["style"] and plain.inside["script"][1] == hostile.inside["script"][1]


def test_hostile_text_is_there_as_text():
    page = whole_page(HOSTILE)
    reader = Reader(render_page(page))
    shown = "\n".join([*reader.text, *(value or "" for _, _, value in reader.attributes)])
    values = json.loads(reader.inside["script"][0])
    for text in texts_of(page):
        assert printable(text) in shown or text in texts_of_json(values), text


def texts_of_json(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [text for one in value for text in texts_of_json(one)] if isinstance(value, list) else [value]


def test_values_cannot_end_their_script():
    html = render_page(whole_page(HOSTILE))
    block = re.search(r'id="charts">(.*?)</script>', html, re.DOTALL)[1]
    assert "<" not in block and "\u2028" not in block and len(json.loads(block)) == 3


def test_nothing_is_loaded_from_anywhere():
    html = render_page(whole_page())
    reader = Reader(html)
    links = [value for _, name, value in reader.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert links and all(link.startswith(("data:image/", "#")) for link in links)
    assert set(re.findall(r"https?://[^\s\"']*", html)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "@import" not in html and "url(" not in web_file("page.css")
    assert not any(name in ("style", "onclick", "onload") for _, name, _ in reader.attributes)


def test_the_policy_allows_these_scripts_and_styles_and_no_others():
    reader = Reader(render_page(whole_page()))
    policy = next(value for tag, name, value in reader.attributes if tag == "meta" and "default-src" in value)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    for kind, content in (("style-src", reader.inside["style"][0]), ("script-src", reader.inside["script"][1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert parts[kind] == f"'sha256-{digest}'"


def test_contents_name_every_section_of_a_long_page_only():
    page = whole_page(HOSTILE)
    links = [value[1:] for _, name, value in Reader(render_page(page)).attributes if name == "href"]
    anchors = [value for tag, name, value in Reader(render_page(page)).attributes if (tag, name) == ("section", "id")]
    assert links == anchors and len(set(links)) == 5
    assert "<nav" not in render_page(Page("t", "s", page.sections[:4]))


def test_charts_are_numbered_as_their_values_and_stand_side_by_side():
    chart = LineChart("a", "x", "y", (Series("s", (0.0,), (1.0,)),))
    html = render_page(Page("t", "s", (Section("one", (chart, chart, Paragraph("p"), chart)),)))
    assert [int(number) for number in re.findall(r'data-chart="(\d+)"', html)] == [0, 1, 2]
    assert len(re.findall('<div class="charts">', html)) == 2


def test_pictures_are_inside():
    content = bytes(range(256))
    html = render_page(Page("t", "s", (Section("one", (Picture(content, "webp", "c", "a"),)),)))
    kind, data = re.search(r'src="data:image/(\w+);base64,([^"]*)"', html).groups()
    assert kind == "webp" and base64.b64decode(data) == content


def test_cells_keep_their_values_for_sorting():
    table = Table(("n", "v"), (("a", np.float64(1234.5678)), ("b", float("nan")), ("c", None), ("d", 7)), sortable=True)
    html = render_page(Page("t", "s", (Section("one", (table,)),)))
    assert 'data-value="1234.5678">1,235<' in html and 'data-value="7.0">7<' in html
    assert html.count(">–<") == 2 and html.count('class="sort"') == 2


def test_odd_characters_can_be_written():
    odd = "name\udcff\x00\x1b[31m"  # a file name that is not UTF-8, and a terminal's escape
    html = render_page(Page(odd, odd, (Section(odd, (Code(odd), Table((odd,), ((odd,),)))),)))
    assert "\x00" not in html and "\x1b" not in html and html.encode()


def test_an_empty_page():
    assert "<h1>t</h1>" in render_page(Page("t", "", ()))
