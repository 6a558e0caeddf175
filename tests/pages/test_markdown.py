"""Markdown has the content of the page, and text of unknown origin means nothing in it."""

import html
import re

from tests.pages.whole_page import HOSTILE, texts_of, whole_page
from yolofast.pages.elements import Code, LineChart, Marked, Page, Paragraph, Section, Series, Table
from yolofast.pages.markdown import render_markdown
from yolofast.pages.text import printable

GROUPS_AND_HINTS = 5
"""Texts that only colours and pointing show: groups of curves, hints of marks that are no warnings, a picture's alt."""


def read(markdown):
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~#.)+-])", r"\1", markdown))


def of_elements(*elements):
    return render_markdown(Page("t", "", (Section("s", elements),)))


def test_every_text_is_there():
    for text in ("text {n}.", HOSTILE):
        page = whole_page(text)
        plain = read(render_markdown(page))
        missing = [one for one in texts_of(page) if " ".join(printable(one).split()) not in plain]
        assert len(missing) <= GROUPS_AND_HINTS


def test_hostile_text_is_no_html_and_breaks_no_table():
    markdown = render_markdown(whole_page(HOSTILE))
    without_code = re.sub(r"^(`{3,})\n.*?\n\1$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    assert "<" not in without_code and "\u2028" not in without_code
    tables = [block.splitlines() for block in without_code.split("\n\n") if block.startswith("|")]
    for table in tables:
        bars = [len(re.findall(r"(?<!\\)\|", line)) for line in table]
        assert len(set(bars)) == 1


def test_code_is_fenced_by_more_backticks_than_it_has():
    assert "`````\na ```` b\n`````" in of_elements(Code("a ```` b"))


def test_tables_align_numbers_and_mark_the_best():
    table = Table(("name", "n"), (("a", Marked(1.0, "best")), ("b", None), ("c", Marked(2.5, "worse"))), "caption")
    expected = ["**caption**", "", "| name | n |", "| --- | ---: |", "| a | **1** |", "| b | – |", "| c | 2.500 ↓ |"]
    assert "\n".join(expected) in of_elements(table)


def test_a_chart_is_a_table_at_a_few_of_its_x():
    x = tuple(range(1, 101))
    other = Series("other", (1.0, 100.0), (7.0, 8.0))
    lines = of_elements(LineChart("loss", "epoch", "value", (Series("one", x, x), other))).splitlines()
    head = next(line for line in lines if line.startswith("| value at epoch"))
    assert head == "| value at epoch | 1 | 15 | 29 | 43 | 58 | 72 | 86 | 100 |"
    assert "| one | 1 | 15 | 29 | 43 | 58 | 72 | 86 | 100 |" in lines
    assert "| other | 7 | – | – | – | – | – | – | 8 |" in lines


def test_a_paragraph_that_begins_like_a_list_is_none():
    for text, written in (("- a", "\\- a"), ("1. a", "1\\. a"), ("+5 %", "\\+5 %"), ("5 runs", "5 runs")):
        assert of_elements(Paragraph(text)).splitlines()[-1] == written
