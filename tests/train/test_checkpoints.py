"""Checkpoints are written while training continues."""

import os
import random
import shutil
import zipfile

import pytest
import torch

from yolofast.errors import UserError
from yolofast.train import checkpoints as module
from yolofast.train.checkpoints import Checkpoints, read_state


def read(path):
    return torch.load(path, weights_only=True)


def state(**more):
    """What the state of a run has at least."""
    least = {"config": {}, "model": {}, "step": {}, "rows": [], "next_epoch": 1, "best_fitness": 0.5, "best_epoch": 0}
    return {**least, **more}


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
        checkpoints.save(state(epoch=epoch), *(["best.pt", "epoch_002.pt"] if epoch == 1 else []))
    assert checkpoints.has("best.pt") and not checkpoints.has("epoch_001.pt")
    found = {path.name: read(path)["epoch"] for path in folder.iterdir()}
    assert found == {"last.pt": 3, "last.previous.pt": 2, "best.pt": 1, "epoch_002.pt": 1}


def test_a_disk_without_second_names_gets_copies(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    checkpoints = Checkpoints(tmp_path / "weights")
    checkpoints.save(state(epoch=5), "best.pt")
    checkpoints.finish()
    best, last = tmp_path / "weights" / "best.pt", tmp_path / "weights" / "last.pt"
    assert best.read_bytes() == last.read_bytes() and not best.samefile(last)


def test_what_could_not_be_written_is_reported_and_the_one_before_is_there(tmp_path, monkeypatch):
    checkpoints, last = Checkpoints(tmp_path / "weights"), tmp_path / "weights" / "last.pt"
    checkpoints.save(state(epoch=0), "best.pt")
    checkpoints.finish()

    def full(path, content):
        raise UserError("the checkpoint could not be written: No space left on device", where=path)

    monkeypatch.setattr(module, "save_checkpoint", full)
    checkpoints.save(state(epoch=1), "best.pt")
    with pytest.raises(UserError, match=r"weights: the checkpoint .* No space left(.|\n)* continue with --resume"):
        checkpoints.save(state(epoch=2))
    assert read_state(last)[0]["epoch"] == 0 and read(last.with_name("best.pt"))["epoch"] == 0
    checkpoints.finish()


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    checkpoints, folder = Checkpoints(tmp_path / "weights"), tmp_path / "weights"
    checkpoints.save(state(epoch=0), "best.pt")
    checkpoints.finish()
    (folder / f".last.new.pt.{2**22 + 1}.tmp").write_bytes(b"half")  # no process has such a number
    Checkpoints(folder)
    assert {path.name for path in folder.iterdir()} == {"last.pt", "best.pt"}


def test_a_copy_that_finds_no_room_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(95, "Operation not supported")

    def full(source, target):
        target.write(b"half")
        raise OSError(28, "No space left on device", source.name)

    checkpoints, folder = Checkpoints(tmp_path / "weights"), tmp_path / "weights"
    checkpoints.save(state(epoch=0), "best.pt")
    checkpoints.finish()
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copyfileobj", full)
    checkpoints.save(state(epoch=1), "best.pt")
    with pytest.raises(UserError, match=r"could not be written: No space left(.|\n)* continue with --resume"):
        checkpoints.finish()
    assert not list(folder.glob(".*"))
    assert read(folder / "best.pt")["epoch"] == 0 and read_state(folder / "last.pt")[0]["epoch"] == 0


@pytest.mark.slow
def test_no_flipped_bit_is_trained_on(tmp_path):
    """Noticed, or of a byte that nobody uses. Most bytes of this small file are torch's; of a real one's, weights."""
    checkpoints, last = Checkpoints(tmp_path / "weights"), tmp_path / "weights" / "last.pt"
    torch.manual_seed(0)
    weights = {f"layer.{number}": torch.randn(30) for number in range(6)}
    for epoch in range(2):
        checkpoints.save(state(model=weights, rows=[{"loss": 0.5}], epoch=epoch))
    checkpoints.finish()
    whole, (expected, _), rng = last.read_bytes(), read_state(last), random.Random(0)
    noticed = 0
    for _ in range(400):
        content, place = bytearray(whole), rng.randrange(len(whole))
        content[place] ^= 1 << rng.randrange(8)
        last.write_bytes(content)
        found, warning = read_state(last)
        if warning is not None:
            noticed += 1
            assert found["epoch"] == 0 and warning.startswith("last.pt is damaged")
            continue
        own, others = found.pop("model"), dict(expected)
        assert all(torch.equal(own[name], tensor) for name, tensor in others.pop("model").items())
        assert found == others, place
    assert noticed > 120


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"step": 1}, "it has no config"),
        ([1], "it has no config"),
        (state(config=[]), r"its config is \[\]"),
        (state(next_epoch="7"), "its next_epoch is '7'"),
        (state(rows={}), r"its rows is \{\}"),
    ],
)
def test_what_is_not_the_state_of_a_run_is_refused_by_name(tmp_path, content, why):
    torch.save(content, tmp_path / "last.pt")
    with pytest.raises(UserError, match=f"not the state of a run: {why}"):
        read_state(tmp_path / "last.pt")


def test_a_compressed_entry_is_not_unfolded(tmp_path):
    """Torch would: a small file could take any memory."""
    torch.save(state(step={"zeros": torch.zeros(1_000_000)}), tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(tmp_path / "last.pt", "w", 8) as small:
        for name in plain.namelist():
            small.writestr(name, plain.read(name))
    with pytest.raises(UserError, match=r"cannot be resumed: last\.pt"):
        read_state(tmp_path / "last.pt")
