"""What is known about a network before it is built."""

import pytest
import torch

from tests.train.small_run import flags
from yolofast import build_model
from yolofast.cli import main
from yolofast.detect.networks import check_number_of_heads, starting_network
from yolofast.errors import UserError


def test_the_number_of_heads_is_that_of_the_grouping():
    check_number_of_heads(0, "standard")
    check_number_of_heads(4, "standard")
    with pytest.raises(UserError, match=r"--heads is 3, but --head-config standard groups the classes into 4") as error:
        check_number_of_heads(3, "standard")
    assert "--heads 4, or omit it" in str(error.value)


def test_a_mismatch_is_one_message_of_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = flags(tmp_path, cfg="yolov7-tiny-1b4h", heads=2, head_config="standard")
    assert main(["train", *words]) == 2
    assert "--heads is 2, but --head-config standard" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_weights_with_nan_are_refused(tmp_path):
    tensors = build_model("yolox-nano", nc=3).state_dict()
    tensors["backbone.backbone.stem.conv.conv.weight"][0] = float("nan")
    torch.save({"model": tensors}, tmp_path / "broken.pth")
    with pytest.raises(UserError, match=r"broken.pth.*1 of its tensors hold NaN or infinity"):
        starting_network("yolox-nano", str(tmp_path / "broken.pth"), 3, "", lambda text: None)
