"""Files that are written whole, on a disk that has no room for them."""

import resource
from contextlib import contextmanager

import pytest

from yolofast.exit_codes import call
from yolofast.files.atomic_file import write_whole
from yolofast.train.batch_record import EpochRowsFile


@contextmanager
def no_room():
    """A full disk, as far as this process can tell: files may not grow beyond a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_was_there_stays_and_the_error_names_the_file(tmp_path):
    path = tmp_path / "results.csv"
    write_whole(path, b"earlier")
    with no_room(), pytest.raises(OSError, match="too large") as caught:
        write_whole(path, bytes(1000))
    assert caught.value.filename == str(path) and path.read_bytes() == b"earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]


def test_a_command_says_which_file_and_how_to_continue(tmp_path, capfd):
    path = tmp_path / "batches.csv"
    rows = EpochRowsFile(path, ("epoch", "text"), 0)
    with no_room():
        code = call(lambda: rows.append([(0, "x" * 1000)]))
    said = capfd.readouterr().err
    assert code == 2
    assert said.startswith(f"yolofast: error: {path}: File too large\n  fix: make room") and "--resume" in said
