"""What the package says, and what its docstrings say, are short sentences in the field's words."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.docs.test_style import WORDS, sentences, words

IN_DOCSTRINGS = 30
"""They may be a little longer: nobody reads them in a terminal."""
_PART = re.compile(r"\n\s*\n|\n\s*[-*] |\n {4,}|[;:]\s|` \(")
_CODE = re.compile(r"^ *(import \w+|\w+(\.\w+)* = )|[{}<>].*[{}<>]", re.MULTILINE)
"""Templates of programs and pages, which are no sentences."""
_OTHER_WORDS = re.compile(
    r"\bfilm(s|ed)?\b|\bgo(es)? on\b|\bwent on\b|\ble(ave|ft) (it |them )?away\b|\btall(y|ies)\b|manieth\b"
    r"|asked together|(is|are|was|were|and|be) told (with|at|in|as|once|after|before|together)\b",
    re.IGNORECASE,
)
"""Than video, continue, omit, metric accumulator, every n-th, ensemble or batch, reported."""


def texts(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """And whether it is a docstring."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                "".join(
                    str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "x" for part in node.values
                ),
                False,
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value, id(node) in said


def too_long(text: str, is_docstring: bool) -> list[str]:
    if not is_docstring and _CODE.search(text):
        return []
    most = IN_DOCSTRINGS if is_docstring else WORDS
    return [one for part in _PART.split(text) for one in sentences(part) if words(one) > most]


def test_sentences_are_short_and_in_the_fields_words():
    long, other = [], []
    for path in sorted((ROOT / "yolofast").rglob("*.py")):
        for text, is_docstring in texts(ast.parse(path.read_text(encoding="utf-8"))):
            long += [f"{path}: {one}" for one in too_long(text, is_docstring)]
            other += [f"{path}: {found[0]}" for found in _OTHER_WORDS.finditer(text)]
    assert long == [] and other == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_pages_have_the_fields_words(page):
    assert [found[0] for found in _OTHER_WORDS.finditer(page.read_text(encoding="utf-8"))] == []


def test_both_would_be_seen():
    message, docstring = texts(ast.parse(f'"""It {"word " * 31}"""\nprint(f"{{1}} {"word " * 25}")'))
    assert docstring[1] != message[1]
    assert too_long(*docstring) and too_long(*message)
    assert not too_long("word " * 26, True) and not too_long("x = 1\n" + "word " * 26, False)
    for text in ("faults are told together", "a tally", "every so-manieth"):
        assert _OTHER_WORDS.search(text), text
    assert not _OTHER_WORDS.search("it cannot be told from chance; a process that is told, a tracker that is told 12")
    assert _OTHER_WORDS.search("a film") and _OTHER_WORDS.search("it goes on") and not _OTHER_WORDS.search("go one")
