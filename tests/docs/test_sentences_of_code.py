"""What the package says, and what its docstrings say, are short sentences in the field's words."""

import ast
import re
from collections.abc import Iterator

from tests.docs.pages import ROOT
from tests.docs.test_style import WORDS, sentences, words

IN_DOCSTRINGS = 30
"""They may be a little longer: nobody reads them in a terminal."""
_PART = re.compile(r"\n\s*\n|\n\s*[-*] |\n {4,}|[;:]\s|` \(")
_CODE = re.compile(r"^ *(import \w+|\w+(\.\w+)* = )|[{}<>].*[{}<>]", re.MULTILINE)
"""Templates of programs and pages, which are no sentences."""
_OTHER_WORDS = re.compile(r"\bfilm(s|ed)?\b|\bgo(es)? on\b|\bwent on\b|\ble(ave|ft) (it |them )?away\b", re.IGNORECASE)
"""Than video, continue and omit."""


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


def test_both_would_be_seen():
    message, docstring = texts(ast.parse(f'"""It {"word " * 31}"""\nprint(f"{{1}} {"word " * 25}")'))
    assert docstring[1] != message[1]
    assert too_long(*docstring) and too_long(*message)
    assert not too_long("word " * 26, True) and not too_long("x = 1\n" + "word " * 26, False)
    assert _OTHER_WORDS.search("a film") and _OTHER_WORDS.search("it goes on") and not _OTHER_WORDS.search("go one")
