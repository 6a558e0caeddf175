"""What is kept is listed with its size and age, and removed on request: all of it, or what was not used for long."""

import os
import time

import pytest

from yolofast.cli import main


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    old, new, beside = (
        tmp_path / "cache" / "index" / "old-train-1.index.npz",
        tmp_path / "cache" / "kernels" / "abc" / "one.bin",
        tmp_path / "data" / ".yolofast" / "data-train-2.index.npz",
    )
    for file in (old, new, beside, tmp_path / "cache" / "stores" / "x.lock", tmp_path / "cache" / "notes.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"12345")
    before = time.time() - 40 * 86_400
    os.utime(old, (before, before))
    return old, new, beside


def test_listed_and_nothing_is_removed(kept, capsys):
    assert main(["cache", "--data", str(kept[2].parents[1])]) == 0
    said = capsys.readouterr().out
    assert "3 items" in said and " 40 " in said and all(file.exists() for file in kept)


def test_what_was_not_used_for_long_is_removed(kept, capsys):
    assert main(["cache", "--clear", "--older", "30"]) == 0
    assert "removed: 1 item" in capsys.readouterr().out
    assert [file.exists() for file in kept] == [False, True, True]


def test_all_is_removed_but_what_is_somebody_elses(kept, tmp_path, capsys):
    assert main(["cache", "--clear", "--data", str(kept[2].parents[1])]) == 0
    assert not any(file.exists() for file in kept) and (tmp_path / "cache" / "notes.txt").exists()
    assert main(["cache", "--older", "3"]) == 2 and "add --clear" in capsys.readouterr().err
