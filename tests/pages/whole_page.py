"""A page with every kind of element, its texts made by one function; and a reader of HTML that sees tags and text."""

from dataclasses import fields, is_dataclass
from html.parser import HTMLParser

from yolofast.pages.elements import (
    Bar,
    BarChart,
    Callout,
    Code,
    Figures,
    LineChart,
    Marked,
    Matrix,
    Page,
    Paragraph,
    Picture,
    Point,
    ScatterChart,
    Section,
    Series,
    Stretch,
    Table,
    Timeline,
)

HOSTILE = "</script></style><img src=x onerror=\"alert(1)\"><script>alert('2')</script>{n}&amp;\u2028|`*_[x](y)\u202e"
_CHOICES = ("note", "warn", "good", "best", "worse", "png", "jpeg", "webp")


def whole_page(text="text {n}"):
    count = iter(range(1000))

    def words():
        return text.format(n=next(count)) if text != HOSTILE else text.replace("{n}", str(next(count)))

    cells = ((words(), 1.5, Marked(0.25, "best", words())), (words(), None, Marked(words(), "warn", words())))
    series = Series(words(), (1.0, 2.0, 3.0), (0.5, None, 0.25), words(), low=(0.4, None, 0.2), high=(0.6, None, 0.3))
    state = words()
    stretches = (Stretch(1, 4, state), Stretch(6, 9, state, thin=True))
    everything = (
        Figures(((words(), 0.5731), (words(), Marked(words(), "worse", words())))),
        Paragraph(words()),
        Callout("warn", words()),
        Code(words()),
        Table((words(), words(), words()), cells, words(), sortable=True),
        LineChart(words(), words(), words(), (series, Series(words(), (), ())), hint=words()),
        ScatterChart(
            words(), words(), words(), (Point(words(), 1.0, 2.0, words(), best=True), Point(words(), 2.0, 1.0))
        ),
        BarChart(words(), words(), (Bar(words(), ((words(), 1.0), (words(), 2.0))),)),
        Matrix(words(), words(), words(), (words(), words()), (words(), words()), ((3.0, 1.0), (0.0, 2.0)), words()),
        Timeline(words(), words(), 10, (state,), ((words(), stretches),), words()),
        Picture(b"\xff\xd8picture", "jpeg", words(), words()),
    )
    sections = (Section(words(), everything), *(Section(words(), (Paragraph(words()),)) for _ in range(4)))
    return Page(words(), words(), sections)


def texts_of(value):
    """Every text in the elements."""
    if isinstance(value, str):
        return [] if value in _CHOICES else [value]
    if isinstance(value, tuple | list):
        return [text for one in value for text in texts_of(one)]
    return [text for one in fields(value) for text in texts_of(getattr(value, one.name))] if is_dataclass(value) else []


class Reader(HTMLParser):
    """Tags with their attributes in order, text outside and inside scripts and styles. Where words may be broken is no
    structure."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text, self.inside = [], [], [], {"script": [], "style": []}
        self._open = None
        self._continues = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag == "wbr" and not attrs:
            self._continues = True
            return
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in self.inside:
            self._open = tag
            self.inside[tag].append("")

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.inside[self._open][-1] += data
        elif self._continues:
            self.text[-1] += data
        else:
            self.text.append(data)
        self._continues = False
