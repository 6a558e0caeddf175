"""Checkpoints are written while training continues."""

import os
import shutil

import pytest
import torch

from yolofast.errors import UserError
from yolofast.train import checkpoints as module
from yolofast.train.checkpoints import Checkpoints, read_state


def read(path):
    return torch.load(path, weights_only=True)


def test_what_changes_afterwards_is_not_in_it(tmp_path):
    weights, rows = torch.zeros(100_000), [{"epoch": 0}]
    checkpoints = Checkpoints(tmp_path / "weights")
    checkpoints.save({"step": {"weights": weights, "pair": (weights, 1)}, "rows": rows}, "best.pt")
    weights += 1
    rows[0]["epoch"] = 7
    rows.append({"epoch": 1})
    checkpoints.finish()
    for name in ("last.pt", "best.pt"):
        content = read(tmp_path / "weights" / name)
        assert not content["step"]["weights"].any() and not content["step"]["pair"][0].any()
        assert content["rows"] == [{"epoch": 0}]


def test_other_names_stay_with_their_epoch(tmp_path):
    checkpoints, folder = Checkpoints(tmp_path / "weights"), tmp_path / "weights"
    for epoch in range(4):
        checkpoints.save({"step": {}, "epoch": epoch}, *(["best.pt", "epoch_002.pt"] if epoch == 1 else []))
    assert checkpoints.has("best.pt") and not checkpoints.has("epoch_001.pt")
    found = {path.name: read(path)["epoch"] for path in folder.iterdir()}
    assert found == {"last.pt": 3, "last.previous.pt": 2, "best.pt": 1, "epoch_002.pt": 1}


def test_a_disk_without_second_names_gets_copies(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    checkpoints = Checkpoints(tmp_path / "weights")
    checkpoints.save({"step": {}, "epoch": 5}, "best.pt")
    checkpoints.finish()
    best, last = tmp_path / "weights" / "best.pt", tmp_path / "weights" / "last.pt"
    assert best.read_bytes() == last.read_bytes() and not best.samefile(last)


def test_what_could_not_be_written_is_reported_and_the_one_before_is_there(tmp_path, monkeypatch):
    checkpoints, last = Checkpoints(tmp_path / "weights"), tmp_path / "weights" / "last.pt"
    checkpoints.save({"step": {}, "epoch": 0}, "best.pt")
    checkpoints.finish()

    def full(path, content):
        raise UserError("the checkpoint could not be written: No space left on device", where=path)

    monkeypatch.setattr(module, "save_checkpoint", full)
    checkpoints.save({"step": {}, "epoch": 1}, "best.pt")
    with pytest.raises(UserError, match=r"weights: the checkpoint .* No space left(.|\n)* continue with --resume"):
        checkpoints.save({"step": {}, "epoch": 2})
    assert read_state(last)[0]["epoch"] == 0 and read(last.with_name("best.pt"))["epoch"] == 0
    checkpoints.finish()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    checkpoints, folder = Checkpoints(tmp_path / "weights"), tmp_path / "weights"
    checkpoints.save({"step": {}, "epoch": 0}, "best.pt")
    checkpoints.finish()
    (folder / ".last.new.pt.4711.tmp").write_bytes(b"half")
    Checkpoints(folder)
    assert {path.name for path in folder.iterdir()} == {"last.pt", "best.pt"}


def test_a_copy_that_finds_no_room_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(95, "Operation not supported")

    def full(source, target):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(source))

    checkpoints, folder = Checkpoints(tmp_path / "weights"), tmp_path / "weights"
    checkpoints.save({"step": {}, "epoch": 0}, "best.pt")
    checkpoints.finish()
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copyfile", full)
    checkpoints.save({"step": {}, "epoch": 1}, "best.pt")
    with pytest.raises(UserError, match=r"could not be written: No space left(.|\n)* continue with --resume"):
        checkpoints.finish()
    assert not list(folder.glob(".*"))
    assert read(folder / "best.pt")["epoch"] == 0 and read_state(folder / "last.pt")[0]["epoch"] == 0
