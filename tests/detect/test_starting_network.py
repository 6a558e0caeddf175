"""What is known about a network before it is built."""

import re

import pytest
import torch

from tests.train.small_run import flags
from yolofast import build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.cli import main
from yolofast.detect.networks import check_number_of_heads, load_model, read_trained, starting_network
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


@pytest.mark.slow
def test_weights_with_nan_are_refused(tmp_path):
    tensors = build_model("yolox-nano", nc=3).state_dict()
    tensors["backbone.backbone.stem.conv.conv.weight"][0] = float("nan")
    torch.save({"model": tensors}, tmp_path / "broken.pth")
    with pytest.raises(UserError, match=r"broken.pth.*1 of its tensors hold NaN or infinity"):
        starting_network("yolox-nano", str(tmp_path / "broken.pth"), 3, "", lambda text: None)


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    """Weights that say nothing but their tensors, as YOLOX publishes them."""
    path = tmp_path_factory.mktemp("weights") / "some.pth"
    torch.save({"model": build_model("yolox-nano", nc=3).state_dict()}, path)
    return str(path)


@pytest.mark.slow
def test_weights_of_another_network_of_the_family_are_refused_with_its_name(nano, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", *flags(tmp_path, cfg="yolox-tiny", weights=nano)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert re.search(r"some.pth: this is yolox-nano, not yolox-tiny: only \d+ of \d+ tensors fit", said)
    assert "fix: --cfg yolox-nano, or weights of yolox-tiny; --transfer-weights starts from what fits" in said
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_what_fits_is_taken_where_that_is_asked_for(nano):
    said = []
    start = starting_network("yolox-tiny", nano, 3, "", said.append, partly=True)
    assert len(start.anew) and "tensors of" in said[0]


@pytest.mark.slow
def test_other_classes_and_heads_are_no_other_network(nano, tmp_path):
    starting_network("yolox-nano", nano, 8, "", lambda text: None, partly=False)
    save_checkpoint(tmp_path / "tiny.pt", model_content(build_model("yolov7-tiny")))
    weights = str(tmp_path / "tiny.pt")
    starting_network("yolov7-tiny-1b4h", weights, 80, "standard", lambda text: None, partly=False)
    with pytest.raises(UserError, match="this is yolov7-tiny, not mini: only"):
        starting_network("mini", weights, 80, "", lambda text: None, partly=False)


@pytest.mark.slow
def test_evaluation_names_it_too(nano):
    with pytest.raises(UserError, match="this is yolox-nano, not yolox-tiny: the weights do not fit the model"):
        read_trained(nano, "yolox-tiny")
    with pytest.raises(UserError, match="this is yolox-nano, not mini: "):
        load_model("mini", nano, 3, None, transfer=True)
