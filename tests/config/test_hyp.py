"""Hyper-parameter files: found, completed, checked; and nothing passes that the stages refuse."""

import dataclasses

import pytest

from yolofast.augment.recipe import Recipe
from yolofast.config.hyp import HYP_KEYS, hyp_of, published_hyp, read_hyp, source_of
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.files.yaml_file import read_yaml
from yolofast.loss.criterion import LossSettings
from yolofast.resources import find_resource, short_names
from yolofast.train.losses.loss_schedule import AssignerSchedule


def write(tmp_path, text):
    path = tmp_path / "hyp.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", short_names("hyp"))
def test_packaged_files_are_read_unchanged(name):
    for typed in (name, f"data/{name}.yaml"):
        assert read_hyp(typed) == read_yaml(find_resource(name, "hyp")).values


def test_without_a_file_the_defaults_are_those_of_p5():
    assert read_hyp(None) == read_hyp("data/hyp.scratch.p5.yaml")
    assert list(read_hyp(None)) == list(read_yaml(find_resource("hyp.scratch.p5", "hyp")).values)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f74to50", (0.005, 0.01, 3.0, 0.1, 0)),
        ("f74to29", (0.001, 0.1, 3.0, 0.1, 0)),
        ("stage3_f50to0", (0.002, 0.1, 5.0, 0.1, 0)),
    ],
)
def test_gradual_unfreezing(name, expected):
    hyp = read_hyp(f"data/hyp.gradual_unfreeze_{name}.yaml")
    keys = ("lr0", "lrf", "warmup_epochs", "warmup_bias_lr", "loss_ota")
    assert tuple(hyp[key] for key in keys) == expected
    tiny = read_hyp("hyp.scratch.tiny")
    assert {key: value for key, value in hyp.items() if key not in keys} == {
        key: value for key, value in tiny.items() if key not in keys
    }


@pytest.mark.parametrize(
    ("cfg", "recipe"),
    [
        ("yolov7-tiny", "tiny"),
        ("cfg/training/yolov7-tiny-1b4h.yaml", "tiny"),
        ("yolov7", "p5"),
        ("cfg/training/yolov7x.yaml", "p5"),
        ("cfg/training/yolov7-w6.yaml", "p6"),
        ("yolov7-e6e", "p6"),
        ("/home/tiny/yolov7-320.yaml", "p5"),
    ],
)
def test_the_recipe_of_a_model(cfg, recipe):
    assert published_hyp(cfg) == f"data/hyp.scratch.{recipe}.yaml"


def test_a_file_may_say_only_what_it_changes(tmp_path):
    path = write(tmp_path, "lr0: 0.002\nautobalance: true\n")
    hyp = hyp_of(TrainConfig(cfg="yolov7-tiny", hyp=str(path), label_smoothing=0.1))
    tiny = read_hyp("hyp.scratch.tiny")
    assert hyp == {**tiny, "lr0": 0.002, "autobalance": True, "label_smoothing": 0.1}


def test_values_set_on_the_command_line_go_above_the_file(tmp_path):
    path = str(write(tmp_path, "lr0: 0.002\nmosaic: 0.9\n"))
    values = ("lr0=1e-3", "mixup=0", "loss_ota=0", "assigner=[[0,anchor],[70,ota]]")
    before, hyp = hyp_of(TrainConfig(hyp=path)), hyp_of(TrainConfig(hyp=path, recipe_values=values))
    steps = [[0, "anchor"], [70, "ota"]]
    assert hyp == {**before, "lr0": 0.001, "mixup": 0, "loss_ota": 0, "assigner": steps}
    assert hyp_of(TrainConfig(cfg="yolox-s", recipe="yolox-s", recipe_values=("mosaic_prob=0.5",)))["mosaic"] == 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("lr=0.1", "--set: there is no hyper-parameter 'lr', did you mean 'lr"),
        ("epochs=3", "docs/flags.md lists them; flags such as name=first stand before --set"),
        ("lr0=fast", "--set: lr0 is 'fast'\n  fix: give a number above 0"),
        ("lr0", "--set 'lr0' sets nothing\n  fix: give KEY=VALUE, such as lr0=0.001"),
        ("label_smoothing=0.1", "has a flag of its own\n  fix: --label-smoothing 0.1"),
    ],
)
def test_values_that_cannot_be_set(value, message):
    with pytest.raises(UserError) as error:
        hyp_of(TrainConfig(recipe_values=(value,)))
    assert message in str(error.value)


def test_assigners(tmp_path):
    path = str(write(tmp_path, "assigner: [[0, anchor], [70, ota]]\n"))
    assert AssignerSchedule.from_hyp(hyp_of(TrainConfig(hyp=path))).steps == ((0, "anchor"), (70, "ota"))
    assert hyp_of(TrainConfig(hyp=path, assigner="tal"))["assigner"] == "tal"
    assert "assigner" not in hyp_of(TrainConfig(ota_from_epoch=3))
    with pytest.raises(UserError, match=r"hyp\.yaml: --ota-from-epoch and assigner"):
        hyp_of(TrainConfig(hyp=path, ota_from_epoch=3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr0: 0.01\nmosiac: 1.0\n", ":2: there is no hyper-parameter 'mosiac', did you mean 'mosaic'?"),
        ("lr0: '1e-3'\n", ":1: lr0 is '1e-3'\n  fix: give a number above 0 and at most 10: `lr0: 0.001`"),
        ("lr0: fast\n", "lr0 is 'fast'\n  fix: give a number above 0"),
        ("lr0: 0\n", "lr0 is 0"),
        ("lr0: 1.0e+30\n", "lr0 is 1e+30\n  fix: give a number above 0 and at most 10"),
        ("lr0: '1e30'\n", "lr0 is '1e30'\n  fix: give a number above 0 and at most 10"),
        ("box: 1.0e+9\n", "box is 1000000000.0\n  fix: give a number from 0 to 1000"),
        ("box: true\n", "box is True"),
        ("box: -1\n", "box is -1"),
        ("box: .inf\n", "box is inf"),
        ("box: .nan\n", "box is nan"),
        ("mosaic: 1.5\n", "fix: give a number from 0 to 1"),
        ("scale: 1.0\n", "fix: give a number from 0 to below 1"),
        ("anchor_t: 1.0\n", "fix: give a number above 1"),
        ("loss_ota: 2\n", "fix: give 1 or 0"),
        ("anchors: 3.5\n", "anchors is 3.5"),
        ("autobalance: 1\n", "fix: give true or false"),
        ("assigner: [[zero, ota]]\n", "fix: give a name, or a list of epochs and names"),
        ("simota_version: new\n", "fix: give current or vendored"),
        ("3: 4\n", "there is no hyper-parameter 3"),
    ],
)
def test_mistakes(text, message, tmp_path):
    with pytest.raises(UserError) as error:
        read_hyp(write(tmp_path, text))
    assert message in str(error.value) and "hyp.yaml:" in str(error.value)


def test_a_file_that_is_not_there():
    with pytest.raises(UserError, match=r"did you mean 'hyp\.scratch\.tiny'"):
        read_hyp("data/hyp.scratch.tny.yaml")


EDGES = (-1, 0, 1e-6, 0.0005, 0.001, 0.5, 0.999, 1, 1.0001, 4, 89.9, 90, 180, 181, 1e8, 1e9)


@pytest.mark.parametrize("key", [key for key, known in HYP_KEYS.items() if known.default is not None])
def test_what_passes_here_passes_in_the_stages(key):
    for value in EDGES:
        if not HYP_KEYS[key].suits(value):
            continue
        hyp = {**read_hyp(None), key: value}
        Recipe.from_hyp(hyp)
        LossSettings.from_hyp(hyp, levels=3, nc=80, image_size=640)


def test_the_loss_has_no_key_that_is_unknown_here():
    assert {field.name for field in dataclasses.fields(LossSettings)} <= set(HYP_KEYS)


@pytest.mark.parametrize(
    ("values", "file", "words"),
    [
        ((), "", "as published"),
        ((), "my.yaml", "in my.yaml"),
        (("mosaic=0", "lr0=10"), "my.yaml", "by --set"),
        (("lr0_x=1",), "", "as published"),
    ],
)
def test_a_value_says_where_it_was_read(values, file, words):
    assert source_of("lr0", TrainConfig(recipe_values=values), file) == words
