"""Long words may be broken, and nothing else changes."""

import html

from hypothesis import given
from hypothesis import strategies as st

from yolofast.pages.text import breakable_html, html_text


def test_long_words_are_broken_at_their_joints():
    assert breakable_html("a short one & 12.5 %") == "a short one &amp; 12.5 %"
    assert breakable_html("/data/voc320/data.yaml") == "/<wbr>data/<wbr>voc320/<wbr>data.<wbr>yaml"
    assert breakable_html("x" * 30) == "<wbr>".join(("x" * 14, "x" * 14, "xx"))


@given(st.text())
def test_the_text_is_the_same(text):
    assert html.unescape(breakable_html(text).replace("<wbr>", "")) == html.unescape(html_text(text))
