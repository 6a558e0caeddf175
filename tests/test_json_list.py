"""Long JSON lists: the same entries as `json` reads, whatever the pieces, and faults with their place."""

import json

import pytest

from yolofast.errors import UserError
from yolofast.files import json_list
from yolofast.files.json_list import read_json_list

ROWS = [{"token": "ä{]", "values": [1, -2.5e-3, [True, None]], "text": 'a "quoted" \\ \n é'}, {}, {"a": {"b": "}, {"}}]


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "table.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("piece", [1, 2, 7, 50, 1 << 22])
@pytest.mark.parametrize("form", [{}, {"indent": 0}, {"ensure_ascii": False, "separators": (",", ":")}])
def test_entries_are_those_of_json_whatever_the_pieces(written, monkeypatch, piece, form):
    monkeypatch.setattr(json_list, "_PIECE", piece)
    told = []
    path = written(f" {json.dumps(ROWS, **form)} \n")
    assert list(read_json_list(path, told.append)) == list(enumerate(ROWS))
    assert told[-1] == path.stat().st_size and told == sorted(told)


def test_a_list_may_be_empty_and_begin_with_a_mark(written):
    assert list(read_json_list(written("[ ]"))) == []
    assert list(read_json_list(written(b'\xef\xbb\xbf[{"a": 1}]'))) == [(0, {"a": 1})]


@pytest.mark.parametrize("piece", [3, 1 << 22])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "1: .*does not begin with a list, in entry 0; it may have been cut off"),
        ('{"a": 1}', "1: .*does not begin with a list"),
        ('[{"a": 1},\n{"b": 2}', "2: .*neither , nor ], in entry 2; it may have been cut off"),
        ('[{"a": 1},\n{"b": "x', "2: .*Unterminated string.*entry 1; it may have been cut off"),
        ('[{"a": 1},\n{"b": 2,}]', "2: .*entry 1"),
        ('[{"a": 1}\n{"b": 2}]', "2: .*neither , nor ], in entry 1"),
        ('[{"a": 1},\n]', "2: .*Expecting value, in entry 1"),
        ('[{"a": 1}]\n[]', "2: .*something follows the list"),
        ("[{},\n3]", "2: .*3 is not an object, in entry 1"),
        ("[" * 1500, "1: .*entry 0"),
        (b'[{"a": "\xff"}]', "is not UTF-8 text near byte 8"),
    ],
)
def test_what_is_no_list_of_objects_is_refused_with_its_place(written, monkeypatch, content, message, piece):
    monkeypatch.setattr(json_list, "_PIECE", piece)
    with pytest.raises(UserError, match=message) as refused:
        list(read_json_list(written(content)))
    assert refused.value.fix


def test_an_entry_without_end_is_not_collected(written, monkeypatch):
    monkeypatch.setattr(json_list, "_PIECE", 64)
    monkeypatch.setattr(json_list, "_LONGEST", 256)
    told = []
    with pytest.raises(UserError, match=r"Unterminated string.*, in entry 1\n"):
        list(read_json_list(written('[{}, {"a": "' + "x" * 10_000), told.append))
    assert told[-1] < 1000  # the rest was not read


def test_a_missing_file_and_a_folder(tmp_path):
    (tmp_path / "sample.json").write_text("[]")
    with pytest.raises(UserError, match="does not exist, did you mean"):
        list(read_json_list(tmp_path / "sampel.json"))
    with pytest.raises(UserError, match="cannot be read"):
        list(read_json_list(tmp_path))
