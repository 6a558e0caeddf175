"""Which YOLOX a model file means, and which one a weight file holds."""

import pytest
import torch

from yolofast import UserError, build_model, load_weights
from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.model.graph import model_file
from yolofast.model.yolox_config import read_yolox, yolox_of

SIZES = ("nano", "tiny", "s", "m", "l", "x")
CUSTOM = {"family": "yolox", "nc": 2, "depth_multiple": 0.33, "width_multiple": 0.125, "image_size": 96}


def on_meta(cfg, **kwargs):
    with torch.device("meta"):
        return build_model(cfg, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nc", [80, 7])
def test_published_weights_are_recognised_by_their_shapes(size, nc):
    model = on_meta(f"yolox-{size}", nc=nc)
    found = read_yolox(model_file(yolox_of(model.state_dict())))
    assert found == model.config
    assert model.names[:2] == (("person", "bicycle") if nc == 80 else ("0", "1"))


@pytest.mark.slow
def test_other_widths_are_recognised_too_and_other_families_are_not():
    model = on_meta({**CUSTOM, "depth_multiple": 1.67, "depthwise": True})
    again = on_meta(yolox_of(model.state_dict()))
    assert [t.shape for t in again.state_dict().values()] == [t.shape for t in model.state_dict().values()]
    assert yolox_of(on_meta("yolov7-tiny").state_dict()) is None
    assert yolox_of({}) is None
    assert yolox_of(dict.fromkeys(model.state_dict(), torch.tensor(1.0))) is None


@pytest.mark.slow
def test_a_checkpoint_of_ours_builds_the_network_again(tmp_path):
    model = build_model(CUSTOM)
    model.names = ("cat", "dog")
    path = save_checkpoint(tmp_path / "best.pt", model_content(model))
    file = read_weights(path)
    assert file.graph == {**CUSTOM, "depthwise": False}
    again = build_model(file.graph, file.nc)
    assert len(load_weights(again, path).loaded) == len(model.state_dict())
    assert again.names == ("cat", "dog") and again.inputs == model.inputs


@pytest.mark.slow
def test_a_transfer_loads_all_but_the_classes(tmp_path):
    """The six class predictions, weights and biases of three levels, start anew."""
    path = save_checkpoint(tmp_path / "nano.pt", {"model": build_model("yolox-nano").state_dict()})
    report = load_weights(build_model("yolox-nano", nc=7), path, transfer=True)
    assert {entry.name for entry in report.missing} == {
        f"head.cls_preds.{level}.{name}" for level in range(3) for name in ("weight", "bias")
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "yolo9"}, "family is 'yolo9'"),
        ({"width": 1}, "unknown key 'width'"),
        ({"nc": 0}, "nc is 0"),
        ({"nc": True}, "nc is True"),
        ({"depth_multiple": "deep"}, "depth_multiple is 'deep'"),
        ({"width_multiple": 100}, "width_multiple is 100"),
        ({"depthwise": 1}, "depthwise is 1"),
        ({"names": ["cat"]}, r"names is \['cat'\]"),
        ({"names": "coco"}, "names is 'coco'"),  # those are 80
        ({"names": "cocoa"}, "did you mean 'coco'"),
    ],
)
def test_wrong_values_are_named(change, message):
    with pytest.raises(UserError, match=message):
        build_model({**CUSTOM, **change})


def test_a_file_is_quoted_with_its_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("family: yolox\nnc: 3\ndepth_multiple: 0.33\nwidth_multiple: 0\nimage_size: 64\n")
    with pytest.raises(UserError, match=r"mine.yaml:4: width_multiple is 0"):
        build_model(path)


def test_missing_values_and_several_heads():
    with pytest.raises(UserError, match="image_size is missing"):
        build_model({key: value for key, value in CUSTOM.items() if key != "image_size"})
    with pytest.raises(UserError, match="nc is 1000000"):
        build_model(CUSTOM, nc=1_000_000)
    with pytest.raises(UserError, match="YOLOX has one head"):
        build_model(CUSTOM, head_config="standard")


def test_unknown_names_show_the_known_ones():
    with pytest.raises(UserError, match="did you mean 'yolox-") as caught:
        build_model("yolox-xl")
    assert "yolox-nano" in caught.value.fix and "yolov7-tiny" in caught.value.fix
