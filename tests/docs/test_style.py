"""Pages are short sentences in lines that fit, links that lead somewhere, and each has its place in the site."""

import os
import re

import pytest
import yaml

import yolofast
from tests.docs.pages import DOCS, PAGES, README, ROOT

WORDS, WIDTH = 25, 120
GENERATED = {"flags.md", "ota-against-anchor.md"}
"""By commands; lines of tables, which cannot be wrapped."""
WRITTEN = [page for page in PAGES if page.name not in GENERATED]
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_BEGINS = re.compile(r"^(?:([-*]|\d+\.) +|#+ |<.*)")
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)|<img src=\"([^\"]+)\"")


def paragraphs(text):
    """Of prose: list items and headings by themselves, cells of tables divided at semicolons, which are lists."""
    found = [[]]
    for line in map(str.strip, _CODE.sub("", text).splitlines()):
        if line.startswith("|"):
            found += [[part] for cell in line.strip("|").split(" | ") for part in cell.split(";")]
            found.append([])
        elif not line or line.startswith("<") or _BEGINS.match(line):
            found.append([_BEGINS.sub("", line, count=1)])
        else:
            found[-1].append(line)
    return [" ".join(one) for one in found]


def sentences(text):
    """What stands in code or in the address of a link is one word."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", text))
    return re.split(r"(?<=[.!?])[\"')*]*\s+", plain)


def words(sentence):
    return len(re.findall(r"\w[\w'’.,×%/+-]*", sentence))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_sentences_and_lines_are_short(page):
    text = page.read_text(encoding="utf-8")
    long = [one for part in paragraphs(text) for one in sentences(part) if words(one) > WORDS]
    assert long == [], f"more than {WORDS} words"
    lines = _CODE.sub("", text).splitlines()
    wide = [line for line in lines if len(line) > WIDTH and not line.startswith(("|", "#", "`"))]  # cannot be wrapped
    assert wide == [], f"more than {WIDTH} characters"


def test_a_long_sentence_is_seen():
    assert words(sentences("Short. " + "word " * 26)[1]) == 26 and words("`a b c` in [a page](x.md) 3.5 %") > 4
    assert paragraphs("| a; b | c |\n\n- one\n  two\n") == ["", " a", " b", "c ", "", "", "one two"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Mkdocs looks at those within docs/ and their anchors; here are also those that leave it, and README's."""
    targets = [one or other for one, other in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))]
    local = [target for target in targets if not target.startswith(("http", "mailto:"))]
    assert [target for target in local if not os.path.exists(page.parent / target)] == []


def test_code_names_pages_that_exist():
    folders = [ROOT / "yolofast", ROOT / "tests", ROOT / "benchmarks", ROOT / ".ci"]
    files = [*ROOT.glob("*.py"), *ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.py"))]
    named = {name for file in files for name in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))}
    assert len(named) > 20 and [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_page_has_its_place_in_the_site():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w/-]+\.md", yaml.safe_dump(settings["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in DOCS)
    assert [next(iter(part)) for part in settings["nav"]] == ["Start", "How to", "Reference", "Why it is so"]


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "python-reference.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: yolofast\.(?:[\w.]+\.)?(\w+)$", page, re.MULTILINE)) == sorted(
        name for name in yolofast.__all__ if not name.startswith("_")
    )


def test_contributing_says_what_ci_runs():
    targets = re.findall(r"^make (\w+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = re.findall(r"`make (\w+)`", text.split("CI runs `.ci/run`")[1].split("\n- ")[0])
    assert said == targets and len(targets) == 6


def test_the_readme_is_one_screen_and_its_pictures_are_small():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80 and "make demo" in text and "make test" in text
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    assert len(pictures) >= 2 and all(picture.stat().st_size < 150_000 for picture in pictures)


def test_speeds_of_the_readme_are_those_of_the_pages_it_names():
    """As they were measured, rounded."""
    text = README.read_text(encoding="utf-8").split("## Speed")[1].split("\n## ")[0]
    pages = "".join(
        (ROOT / page).read_text(encoding="utf-8") for page in re.findall(r"\((benchmarks/results/\S+?\.md)\)", text)
    )
    measured = [float(number) for number in re.findall(r"\d+\.?\d*", pages)]
    said = [number for row in text.splitlines() for number in re.findall(r"\| ([\d.]+) (?:ms|s)(?= \|)", row)]
    assert {"528", "689"} <= set(said) and len(set(said)) == 6
    for number in said:
        digits = len(number.partition(".")[2])
        assert any(round(value, digits) == float(number) for value in measured), number
