"""What is proposed can be copied, and `yolofast train` takes it."""

import subprocess

import numpy as np
import pytest
import yaml

from yolofast.cli import main
from yolofast.config.yolox_recipe import read_yolox_recipe
from yolofast.report.diagnose.dialect import Change, dialect, flags, how_to_apply, setting
from yolofast.report.logs.history import RUN_FOLDER, YOLOV7_LOG, YOLOX_LOG, Epochs, History


def history(format, settings, source="runs/a run"):
    one = np.ones(1)
    epochs = Epochs(number=np.array([1]), train=one, val=one, fitness=one, lr=one)
    return History(source=str(source), format=format, epochs=epochs, settings=settings)


YOLOX = {"basic_lr_per_img": 0.0002, "multi_scale": True, "epochs": 40}
CHANGES = [
    Change("basic_lr_per_img", 0.0002, 7.81e-05),
    Change("multi_scale", True, False),
    Change("epochs", 40, 15),
    Change("patience", 0, 10),
]


def test_values_of_a_recipe_are_set_and_flags_are_flags():
    run = history(RUN_FOLDER, YOLOX)
    assert flags(run, CHANGES) == [
        "--epochs", "15", "--patience", "10", "--set", "basic_lr_per_img=7.81e-05", "multi_scale=false",
    ]  # fmt: skip
    assert how_to_apply(run, CHANGES).endswith("--set basic_lr_per_img=7.81e-05 multi_scale=false")
    assert str(CHANGES[1]) == "multi_scale: true -> false"


def test_a_recipe_reads_what_is_set():
    words = flags(history(RUN_FOLDER, YOLOX), CHANGES)
    recipe = read_yolox_recipe("yolox-nano", words[words.index("--set") + 1 :])
    assert recipe.multi_scale is False and recipe.basic_lr_per_img == 7.81e-05


@pytest.mark.slow
def test_hyper_parameters_of_yolov7_go_into_a_file(tmp_path):
    (tmp_path / "hyp.yaml").write_text("lr0: 0.01\nlr0_of_others: 1\nmosaic: 1.0\n")
    run = history(RUN_FOLDER, {"lr0": 0.01}, tmp_path)
    changes = [Change("lr0", 0.01, 0.005), Change("epochs", 40, 15), Change("multi_scale", True, False)]
    assert flags(run, changes) == ["--epochs", "15"]
    make, train = how_to_apply(run, changes).split(" && ")
    assert train == "yolofast train … --hyp hyp-to-try.yaml --epochs 15 (without --multi-scale)"
    subprocess.run(make, shell=True, check=True, cwd=tmp_path)
    made = yaml.safe_load((tmp_path / "hyp-to-try.yaml").read_text())
    assert made == {"lr0": 0.005, "lr0_of_others": 1, "mosaic": 1.0}


def test_other_trainers_keep_their_names():
    keys = ("mosaic_prob", "mosaic")
    assert setting(history(YOLOX_LOG, {}), keys) == ("mosaic_prob", None)
    assert setting(history(YOLOV7_LOG, {}), keys) == ("mosaic", None)
    assert dialect(history("CSV, a row per epoch", {})) == "unknown"
    assert flags(history(YOLOX_LOG, {}), CHANGES) == [] and how_to_apply(history(YOLOX_LOG, {}), CHANGES) is None


@pytest.mark.parametrize("words", [["--epochs", "2", "--set", "multi_scale=false", "no_such=1"]])
def test_the_command_line_takes_flags_in_this_order(words, capsys):
    assert main(["train", "--cfg", "yolox-nano", "--weights", "", *words]) == 2
    assert "no_such" in capsys.readouterr().err
