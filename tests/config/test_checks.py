"""Values and combinations that are refused, with what is wrong and the fix."""

from pathlib import Path

import pytest

from yolofast.config.flags import from_settings
from yolofast.config.predict import PredictConfig, ValConfig
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "--epochs is 0\n  fix: give a whole number of at least 1"),
        ({"epochs": True}, "--epochs is True"),
        ({"epochs": "3"}, "--epochs is '3'"),
        ({"epochs": 3.5}, "--epochs is 3.5"),
        ({"batch_size": 0}, "fix: give a whole number of at least 1, or -1"),
        ({"batch_size": -2}, "--batch-size is -2"),
        ({"img_size": (16,)}, "--img-size is 16\n  fix: give 1 to 2 whole numbers of at least 32"),
        ({"img_size": (640, 640, 640)}, "--img-size is 640 640 640"),
        ({"img_size": ()}, "--img-size is ()"),
        ({"fraction": 0.0}, "fix: give a number above 0 and at most 1"),
        ({"fraction": float("nan")}, "--fraction is nan"),
        ({"gear": "grph"}, "--gear is 'grph', did you mean 'graph'?\n  fix: give one of auto, eager, compile, graph"),
        ({"rect": 1}, "--rect is 1\n  fix: give true or false"),
        ({"weights": "a\0b"}, "--weights is"),
        ({"label_smoothing": 1.5}, "--label-smoothing is 1.5"),
        ({"freeze": (-1,)}, "--freeze is -1"),
        ({"save_period": 0}, "--save_period is 0"),
        ({"device": "gpu0"}, "--device is 'gpu0'\n  fix: give 0, or 0,1 for two GPUs, or cpu"),
        ({"device": "0,0"}, "--device 0,0 names a GPU twice"),
        ({"device": "cpu", "gear": "graph"}, "--gear graph needs a GPU"),
        ({"device": "cpu", "precision": "fp16"}, "--precision fp16 needs a GPU"),
        ({"device": "cpu", "loader": "gpu"}, "--loader gpu needs a GPU"),
        ({"device": "cpu", "cache": "gpu"}, "--cache gpu needs a GPU"),
        ({"loader": "cpu", "cache": "gpu"}, "fix: --cache ram, or --loader gpu"),
        ({"device": "cpu", "cache": "jpeg-gpu"}, "--cache jpeg-gpu needs a GPU"),
        ({"loader": "cpu", "cache": "jpeg-gpu"}, "fix: --cache jpeg-ram, or --loader gpu"),
        ({"device": "cpu", "jpeg_decoder": "nvjpeg"}, "--jpeg-decoder nvjpeg needs a GPU"),
        ({"loader": "cpu", "jpeg_decoder": "nvjpeg"}, "fix: --jpeg-decoder opencv, or --loader gpu"),
        ({"cfg": ""}, "neither --cfg nor --weights is given"),
        ({"transfer_weights": True}, "there is nothing to transfer"),
        ({"heads": 4}, "--heads 4 needs to know which head owns which classes\n  fix: add --head-config standard"),
        ({"class_aware_aug": True}, "--class-aware-aug needs to know"),
        ({"image_weights": True, "rect": True}, "--image-weights draws images at random"),
        ({"quad": True, "batch_size": 6}, "multiple of 4\n  fix: --batch-size 8"),
        ({"quad": True, "batch_size": 2, "device": "0,1"}, "on each of 2 GPUs: it must be a multiple of 8"),
        ({"batch_size": 15, "device": "0,1"}, "names 2 GPUs: it must be a multiple of 2"),
        ({"ota_from_epoch": 3, "assigner": "ota"}, "both set the assigner"),
        ({"ota_from_epoch": 100, "epochs": 100}, "never comes"),
        ({"notest": True, "patience": 5}, "--patience 5 needs evaluations"),
        ({"resume": True, "evolve": True}, "--resume continues one run"),
        ({"resume": ""}, "--resume is given an empty name"),
    ],
)
def test_refused(values, message):
    with pytest.raises(UserError) as error:
        TrainConfig(**values)
    assert message in str(error.value)
    assert error.value.fix


@pytest.mark.parametrize(
    "values",
    [
        {"batch_size": -1, "quad": True},
        {"batch_size": 8, "quad": True, "device": "0,1"},
        {"device": "cuda:1"},
        {"device": "cuda"},
        {"cfg": "", "weights": "best.pt", "transfer_weights": True},
        {"heads": 4, "head_config": "standard", "class_aware_aug": True},
        {"ota_from_epoch": 99, "epochs": 100},
        {"epochs": 3, "fraction": 1},
        {"resume": "runs/train/exp/weights/last.pt"},
    ],
)
def test_accepted(values):
    config = TrainConfig(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_val_and_predict_check_too():
    with pytest.raises(UserError, match=r"--conf-thres is 25\n.*at most 1"):
        PredictConfig(conf_thres=25)
    with pytest.raises(UserError, match="did you mean 'speed'"):
        ValConfig(task="sped")
    assert PredictConfig(classes=()).classes == ()


def test_python_names_and_forms():
    config = from_settings(TrainConfig, {"imgsz": 320, "batch": 4, "model": Path("a/b.yaml"), "cos_lr": True})
    assert (config.img_size, config.batch_size, config.cfg, config.lr_schedule) == ((320,), 4, "a/b.yaml", "cosine")
    assert from_settings(ValConfig, {"weights": "a.pt"}).weights == ("a.pt",)
    assert from_settings(ValConfig, {"weights": ["a.pt", Path("b.pt")]}).weights == ("a.pt", "b.pt")
    base = TrainConfig(epochs=5)
    assert from_settings(TrainConfig, {"seed": 1}, base).epochs == 5
    assert TrainConfig(device="2,3").devices == ("2", "3") and TrainConfig(device="cpu").devices == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"imgs_size": 320}, "there is no setting 'imgs_size', did you mean 'img_size'?"),
        ({"imgsz": 320, "img_size": 320}, "both given"),
        ({"cos_lr": False}, "cos_lr is False\n  fix: give cos_lr as true, or set lr_schedule itself"),
        ({3: 4}, "there is no setting 3"),
        ({"batch": "many"}, "--batch-size is 'many'"),
    ],
)
def test_python_mistakes(values, message):
    with pytest.raises(UserError) as error:
        from_settings(TrainConfig, values)
    assert message in str(error.value)
