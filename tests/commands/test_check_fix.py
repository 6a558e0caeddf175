"""`yolofast check` proposes commands, and `--fix` writes a copy in which nothing is wrong."""

import json

import cv2
import numpy as np
import pytest

from tests.dataset.make import coco, encoded, image, with_exif, write
from yolofast.cli import main
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.repair import repair_of
from yolofast.dataset.split import read_split

GOOD = "0 .5 .5 .5 .5\n"


@pytest.fixture
def spoilt(tmp_path, monkeypatch):
    """One image for each thing that may be wrong; `ok` are right."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "set"
    labels = {
        "ok1": GOOD,
        "ok2": "1 .25 .25 .5 .5\n",
        "outside": "0 .9 .5 .5 .5\n",
        "twice": GOOD + GOOD,
        "tiny": GOOD + "1 .5 .5 .001 .5\n",
        "class": "7 .5 .5 .5 .5\n",
        "columns": "0 .5 .5 .5\n",
        "pixels": "0 12 20 30 30\n",
        "text": "0 a .5 .5 .5\n",
        "cut": GOOD,
        "turned": "0 .5 .25 .5 .5\n",
        "small": GOOD,
    }
    for seed, (name, text) in enumerate(labels.items()):
        size = (8, 8) if name == "small" else (64, 48)
        image(root / f"images/train/{name}.jpg", *size, seed=seed)
        write(root / f"labels/train/{name}.txt", text)
    image(root / "images/train/unlabelled.jpg", seed=30)
    write(root / "labels/train/stray.txt", GOOD)
    for name, seed in (("v1", 40), ("v2", 41)):
        image(root / f"images/val/{name}.jpg", seed=seed)
        write(root / f"labels/val/{name}.txt", GOOD)
    image(root / "images/train/leak.jpg", seed=40)
    write(root / "labels/train/leak.txt", GOOD)
    cut = root / "images/train/cut.jpg"
    cut.write_bytes(encoded(seed=50)[:-60])
    turned = root / "images/train/turned.jpg"
    turned.write_bytes(with_exif(encoded(seed=51), 6))
    write(root / "data.yaml", "path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n")
    return root


@pytest.mark.slow
def test_every_fault_has_a_command_and_the_copy_has_none(spoilt, capsys):
    before = {path: path.read_bytes() for path in spoilt.rglob("*") if path.is_file()}
    assert main(["check", "--data", "set"]) == 1
    out = capsys.readouterr().out
    kinds = [line for line in out.splitlines() if line.startswith(("fault: ", "warning: "))]
    assert len(kinds) >= 13 and out.count("  command: ") == len(kinds)
    assert "check --data set --fix set-fixed  (clips the box)" in out

    assert main(["check", "--data", "set", "--fix"]) == 0  # called so without a name, too
    out = capsys.readouterr().out
    assert "set-fixed/data.yaml: no faults, no warnings" in out
    assert "left out: images with faults (6)" in out and "left out: images that another split has too (1)" in out
    assert main(["check", "--data", "set-fixed"]) == 0
    assert {path: path.read_bytes() for path in spoilt.rglob("*") if path.is_file()} == before, (
        "the source is as it was"
    )

    train, val = (read_split("set-fixed/data.yaml", split) for split in ("train", "val"))
    names = [train.path(i).stem for i in range(len(train))]
    assert names == ["ok1", "ok2", "outside", "tiny", "turned", "twice", "unlabelled"] and len(val) == 2
    boxes = {name: train.boxes[train.boxes_of(i)] for i, name in enumerate(names)}
    np.testing.assert_allclose(boxes["outside"], [[0.825, 0.5, 0.35, 0.5]], atol=1e-6)
    assert [len(boxes[name]) for name in ("tiny", "twice", "unlabelled")] == [1, 1, 0]
    turned = cv2.imread("set-fixed/images/train/turned.jpg", cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    assert turned.shape == (64, 48, 3), "upright, without EXIF"


def test_json_names_the_commands(spoilt, capsys):
    assert main(["check", "--data", "set", "--json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert all("check --data set --fix set-fixed" in fault["command"] for fault in faults)


def test_val_that_is_train_is_divided(spoilt, capsys):
    write(spoilt / "data.yaml", "path: .\ntrain: images/val\nval: images/val\nnames: [cat, dog]\n")
    assert main(["check", "--data", "set"]) == 1
    assert "--fix set-fixed  (divides the images into train and val)" in capsys.readouterr().out
    assert main(["check", "--data", "set", "--fix", "out"]) == 0
    assert [len(read_split("out/data.yaml", split)) for split in ("train", "val")] == [1, 1]


def test_coco_stays_coco(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        image(tmp_path / f"x/images/{name}.jpg", seed=ord(name))
    annotations = [
        (1, 3, [1, 1, 20, 20], {}),
        (1, 3, [50, 1, 40, 20], {"iscrowd": 1}),
        (2, 9, [1, 1, 20, 20], {}),
        (99, 3, [1, 1, 20, 20], {}),
    ]
    coco(tmp_path / "x/a.json", {1: ("a.jpg", 64, 48), 2: ("b.jpg", 64, 48)}, annotations, {3: "cat"})
    write(tmp_path / "x/data.yaml", "train: images\nannotations: {train: a.json}\n")
    assert main(["check", "--data", "x"]) == 1
    assert "(leaves such annotations out)" in capsys.readouterr().out
    assert main(["check", "--data", "x", "--fix", "out"]) == 0
    index = read_split("out/data.yaml", "train")
    assert index.path(0).name == "a.jpg" and len(index) == 1
    assert index.crowd.tolist() == [False, True] and index.category_ids.tolist() == [3]


def test_what_cannot_be_repaired_has_no_command(spoilt, capsys):
    write(spoilt / "data.yaml", "path: .\ntrain: nowhere\nval: images/val\nnames: [cat, dog]\n")
    assert main(["check", "--data", "set", "--splits", "train"]) == 1
    assert "command:" not in capsys.readouterr().out
    assert main(["check", "--data", "set", "--splits", "train", "--fix", "out"]) == 2
    assert "--fix repairs the whole data set" in capsys.readouterr().err
    assert main(["check", "--data", "set", "--fix", "set"]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_every_kind_of_fault_was_thought_of():
    """A new kind is either repaired, or named here as one that a person has to look at."""
    by_hand = {FaultKind.EMPTY_SPLIT, FaultKind.UNKNOWN_KEY}
    of_sequences = {
        FaultKind.FRAME, FaultKind.FRAME_ORDER, FaultKind.IDENTITY, FaultKind.DUPLICATE_IDENTITY, FaultKind.BAD_BOX,
        FaultKind.TOKEN,
    }  # fmt: skip
    for kind in set(FaultKind) - by_hand - of_sequences:
        faults = [Fault(kind=kind, where="x", what="", fix="", fatal=fatal) for fatal in (True, False)]
        assert any(repair_of(fault) for fault in faults), kind


def test_nothing_wrong_no_copy(spoilt, capsys):
    write(spoilt / "data.yaml", "path: .\ntrain: images/val\nnames: [cat, dog]\n")
    assert main(["check", "--data", "set", "--fix", "out"]) == 0
    assert "nothing is wrong, so no copy is written" in capsys.readouterr().out and not (spoilt.parent / "out").exists()
