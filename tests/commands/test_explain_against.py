"""`train --explain --against`: only what differs between two configurations, side by side, and nothing trained."""

import cv2
import numpy as np
import pytest

from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main
from yolofast.dataset.shapes.made_once import make_shapes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("against")
    make_shapes(folder / "shapes", n=24)
    return folder


@pytest.fixture
def compared(folder, capsys, monkeypatch):
    """The cells of what is printed, by the first of them."""
    monkeypatch.chdir(folder)

    def run(*words, cfg="yolox-nano"):
        base = ["--data", "shapes/data.yaml", "--device", "cpu", *(["--cfg", cfg] if cfg else [])]
        assert main(["train", *base, "--explain", *words]) == 0
        out = capsys.readouterr().out
        assert not (folder / "runs").exists()
        lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]
        return {cells[0]: cells[1:] for cells in lines if cells}, out

    return run


@pytest.mark.slow
def test_two_recipes(compared, folder):
    rows, out = compared("two.png", "--recipe", "nuscenes-stable-v3", "--against", "nuscenes-clean-v2")
    assert rows["what runs"] == rows["values"] == ["nuscenes-stable-v3", "nuscenes-clean-v2"]
    assert rows["epochs"] == ["30", "10"] and rows["mosaic_prob"] == ["0.2", "0.5"]
    assert rows["mosaic_scale"] == ["0.85 to 1.15", "0.8 to 1.2"]
    assert [text.split()[0] for text in rows["learning rate"]] == ["0.0003", "0.000125"]
    assert rows["30"] == ["3e-05", "–"], "the second has no such epoch"
    assert not {"degree", "shape", "flip_prob", "loss", "learning", "network"} & rows.keys()
    (same,) = [line for line in out.splitlines() if line.startswith("the same in both")]
    assert {"learning", "network", "loss", "flip_prob"} <= set(same.partition(": ")[2].split(", "))
    picture = cv2.imdecode(np.fromfile(folder / "two.png", np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape[0] > 400 and picture.std() > 10


@pytest.mark.slow
def test_freezing_is_a_difference(compared):
    rows, _ = compared("nuscenes-stable-v3", "--against", "yolox-nano")
    frozen, everything = rows["learning"]
    assert frozen.startswith("all but backbone, neck") and everything.startswith("everything")
    assert "(100.0%)" in everything and "(100.0%)" not in frozen
    assert rows["average"] == ["none", "decay 0.9998"]


@pytest.mark.slow
def test_flags_on_top_of_the_first(compared):
    """A plan takes the place of what the recipe freezes; values that are set stay set."""
    words = ("--recipe", "nuscenes-stable-v3", "--set", "shear=0.25", "--epochs", "12", "--against")
    rows, out = compared(*words, "--plan yolox-progressive")
    assert rows["what runs"] == ["as given", "--plan yolox-progressive"]
    assert "epochs 5-8: head, neck:" in out and "values" not in rows
    rows, out = compared(*words, "--set mosaic_prob=1")
    assert rows["mosaic_prob"] == ["0.2", "1"] and "shear" in out.rpartition("the same in both")[2]


@pytest.mark.slow
def test_hyper_parameters_of_yolov7(compared, folder):
    cfg, words = str(small_cfg_file(folder)), ("--epochs", "4", "--batch-size", "8", "--against")
    rows, _ = compared(*words, "hyp.scratch.tiny.noota", cfg=cfg)
    assert rows["loss"] == ["ota", "anchor"] and rows["loss_ota"] == ["1", "0"]
    (folder / "mine.yaml").write_text("lr0: 0.02\nweight_decay: 0.001\n")
    rows, _ = compared(*words, "mine.yaml", cfg=cfg)
    assert rows["lr0"] == ["0.01", "0.02"]


@pytest.mark.slow
def test_a_file_is_known_by_what_it_says(compared, folder):
    (folder / "plan.yaml").write_text("plan: [{until: 50%, train: [head]}, {lr: 0.1}]\n")
    rows, out = compared("--epochs", "4", "--against", "plan.yaml")
    assert "epochs 1-2: head:" in out
    (folder / "recipe.yaml").write_text("weight_decay: 0.001\ndegrees: 3.0\n")
    rows, _ = compared("--epochs", "4", "--against", "recipe.yaml")
    assert rows["weight_decay"] == ["0.0005", "0.001"]


@pytest.mark.slow
def test_nothing_differs(compared):
    rows, out = compared("--epochs", "4", "--against", "--seed 1")
    assert "what runs" not in rows and "values" not in rows and "epoch" not in rows and "the same in both" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explain", "--against", "nuscnes-clean-v2"], "did you mean 'nuscenes-clean-v2'"),
        (["--explain", "--against", ""], "--against names no flag"),
        (["--explain", "--against", "--recipe 'x"], "close the quotation mark"),
        (["--explain", "--against", "--mosaic 1"], "unknown argument --mosaic"),
        (["--explain", "--against", "hyp.scratch.tiny"], "--hyp is not for YOLOX"),
        (["--explain", "--against=--resume"], "--against compares runs that begin"),
        (["--explain", "--freeze", "neck", "--against", "yolox-progressive"], "--freeze and --plan both say"),
        (["--against", "yolox-s"], "it needs --explain"),
    ],
)
def test_what_is_refused(folder, capsys, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    try:
        code = main(["train", "--cfg", "yolox-nano", "--data", "shapes/data.yaml", "--device", "cpu", *words])
    except SystemExit as end:  # argparse's way
        code = end.code
    assert code == 2 and message in capsys.readouterr().err
