"""A size that the network's coarsest cells do not fill is rounded up before anything is made for it."""

import csv
import json

import pytest
import torch

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.detect.networks import in_strides


def test_sides_are_rounded_up_and_it_is_said_once():
    said = []
    assert in_strides((100, 160), 32, said.append) == (128, 160)
    assert in_strides((640,), 64, said.append) == (640,)
    assert said == ["warning: --img 100 160 is not a multiple of the stride 32: 128 160 is used"]


@pytest.mark.slow
def test_training_evaluation_and_files_have_the_size_that_is_used(tmp_path, capsys, one_thread):
    words = flags(tmp_path, img_size=50, epochs=1)
    assert main(["train", *words]) == 0
    warning = "warning: --img 50 is not a multiple of the stride 32: 64 is used"
    assert capsys.readouterr().out.count(warning) == 1
    run = tmp_path / "runs" / "exp"
    with (run / "batches.csv").open() as file:
        assert {row["size"] for row in csv.DictReader(file)} == {"64"}
    assert torch.load(run / "weights" / "last.pt", weights_only=True)["img_shape"] == [64, 64]
    assert "img_size:\n- 64\n" in (run / "args.yaml").read_text()
    assert main(["train", "--resume", str(run), "--epochs", "2"]) == 0
    assert "multiple of the stride" not in capsys.readouterr().out
    assert main(["train", *words, "--explain"]) == 0
    shown = capsys.readouterr().out
    assert shown.count(warning) == 1 and "64×64" in shown


@pytest.mark.slow
def test_info_tells_of_the_size_that_training_uses(tmp_path, capsys):
    assert main(["info", "--cfg", "yolox-nano", "--img", "100", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["image_size"] == [128, 128]
    assert shown.err == "warning: --img 100 is not a multiple of the stride 32: 128 is used\n"
    text = "family: yolox\nnc: 2\ndepth_multiple: 0.33\nwidth_multiple: 0.25\nimage_size: 333\n"
    (tmp_path / "net.yaml").write_text(text)
    assert main(["info", "--cfg", str(tmp_path / "net.yaml")]) == 0
    shown = capsys.readouterr()
    assert "352×352" in shown.out and "--img" not in shown.err
    assert "the network's image size 333 is not a multiple of the stride 32: 352 is used" in shown.err
