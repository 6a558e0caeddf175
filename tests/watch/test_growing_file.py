"""Files that grow, are replaced and vanish under the reader; how much is read is measured, not assumed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.made_runs import bytes_read, counts_bytes
from yolofast.watch.growing_file import GrowingFile
from yolofast.watch.watched_folder import WatchedFolder

MUCH = 2**20


def reader_of(path):
    return GrowingFile(WatchedFolder(path.parent) / path.name)


def test_only_whole_lines_and_each_once(tmp_path):
    path = tmp_path / "results.csv"
    reader = reader_of(path)
    assert reader.news(MUCH).lines == []
    path.write_bytes(b"a,b\n1,2\n3,")
    assert reader.news(MUCH).lines == [b"a,b", b"1,2"]
    assert reader.news(MUCH).lines == []
    with path.open("ab") as file:
        file.write(b"4\r\n5,6\n")
    news = reader.news(MUCH)
    assert (news.lines, news.restarted) == ([b"3,4", b"5,6"], False)


def test_replaced_by_a_longer_one_continues(tmp_path):
    """As `train` writes results.csv: anew and whole after every epoch."""
    path, newer = tmp_path / "results.csv", tmp_path / "newer"
    path.write_bytes(b"a\n1\n")
    reader = reader_of(path)
    reader.news(MUCH)
    newer.write_bytes(b"a\n1\n2\n")
    newer.replace(path)
    assert reader.news(MUCH) == ([b"2"], False, False)


@pytest.mark.parametrize("other", [b"a\n9\n8\n7\n", b"a\n", b""], ids=["other rows", "shorter", "empty"])
def test_replaced_by_another_one_begins_anew(tmp_path, other):
    path, newer = tmp_path / "results.csv", tmp_path / "newer"
    path.write_bytes(b"a\n1\n2\n")
    reader = reader_of(path)
    reader.news(MUCH)
    newer.write_bytes(other)
    newer.replace(path)
    news = reader.news(MUCH)
    assert news.restarted and news.lines == other.splitlines()


def test_removed_and_back(tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(b"a\n1\n")
    reader = reader_of(path)
    reader.news(MUCH)
    path.unlink()
    assert reader.news(MUCH) == ([], True, False)
    assert reader.news(MUCH) == ([], False, False)
    path.write_bytes(b"a\n1\n")
    assert reader.news(MUCH).lines == [b"a", b"1"]


def test_in_pieces_and_past_a_line_without_end(tmp_path):
    path = tmp_path / "batches.csv"
    path.write_bytes(b"a\n" + b"1\n" * 100_000 + b"x" * 300_000 + b"\n2\n")
    reader, lines, calls = reader_of(path), [], 0
    while True:
        news = reader.news(2**16)
        lines += news.lines
        calls += 1
        if not news.more:
            break
    assert lines[:2] == [b"a", b"1"] and lines[-1] == b"2" and lines.count(b"1") == 100_000
    assert 8 <= calls <= 10


@counts_bytes
def test_a_large_file_is_read_once(tmp_path):
    path = tmp_path / "batches.csv"
    path.write_bytes(b"header\n" + b"0123456\n" * 2**20)
    reader = reader_of(path)
    while reader.news(MUCH).more:
        pass
    with path.open("ab") as file:
        file.write(b"new\n")
    before = bytes_read()
    assert reader.news(MUCH).lines == [b"new"]
    assert bytes_read() - before < 2**14
    before = bytes_read()
    reader.news(MUCH)
    assert bytes_read() - before < 250, "unchanged: not even opened, only the counter is read"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_read(tmp_path, kind):
    path, secret = tmp_path / "results.csv", tmp_path / "secret"
    secret.write_bytes(b"a\nprivate\n")
    {"link": lambda: path.symlink_to(secret), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    assert reader_of(path).news(MUCH).lines == []


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30), max_size=12))
def test_any_bytes_in_any_portions_give_the_same_lines(tmp_path_factory, portions):
    path = tmp_path_factory.mktemp("f") / "results.csv"
    path.write_bytes(b"")
    reader, lines = reader_of(path), []
    for portion in portions:
        with path.open("ab") as file:
            file.write(portion)
        news = reader.news(MUCH)
        assert not news.restarted
        lines += news.lines
    whole = b"".join(portions)
    assert lines == whole[: whole.rfind(b"\n") + 1].splitlines()
