"""Training and evaluating from Python; the examples of docs/api.md run as printed."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video
from yolofast import Detector, UserError
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files the examples name."""
    folder = tmp_path_factory.mktemp("here") / "place"
    data = make_shapes(folder, n=16)
    assert data == folder / "data.yaml"
    save_seeing(folder / "best.pt", names=read_split(data, "val").names, img_size=64)
    cv2.imwrite(str(folder / "street.jpg"), picture(0))
    save_video(folder / "traffic.mp4", frames=11)
    return folder


@pytest.mark.slow
def test_the_examples_run_as_printed(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    monkeypatch.setenv("YOLOFAST_CACHE", str(place / "cache"))
    section = PAGE.read_text(encoding="utf-8").split("### `yolofast.Detector(")[1].split("\n### ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 5
    names = {}
    exec(compile("\n".join(examples), str(PAGE), "exec"), names)
    numbers = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] in ("0 ", "1 ", "2 ")]
    assert numbers == list("012")  # every fifth of eleven pictures
    run, result = names["run"], names["result"]
    assert (run.folder / "weights" / "best.pt").exists() and 0 <= run.map <= run.map50 <= 1
    assert run.detector.size == 64 and run.detector.names == names["detector"].names
    assert result.metrics.images == 3 and (result.folder / "PR_curve.png").exists()
    learnt, before = (one.model.state_dict() for one in (run.detector, names["detector"]))
    assert any(not np.array_equal(learnt[name], before[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epohcs": 1}, "did you mean 'epochs'"),
        ({"weights": "x.pt"}, "belongs to the detector"),
        ({"epochs": 0}, "--epochs is 0"),
    ],
)
def test_settings_that_are_refused(place, settings, message):
    with pytest.raises(UserError, match=message):
        Detector(place / "best.pt", device="cpu").train(place / "data.yaml", **settings)


def test_validation_refuses_unknown_settings_too(place):
    detector = Detector(place / "best.pt", device="cpu")
    with pytest.raises(UserError, match="did you mean 'batch"):
        detector.val(place / "data.yaml", batchsize=2)
    with pytest.raises(UserError, match="use the command"):
        detector.val(place / "data.yaml", task="speed")


def test_several_networks_cannot_be_trained(place):
    with pytest.raises(UserError, match="cannot be trained together"):
        Detector([place / "best.pt", place / "best.pt"], device="cpu").train(place / "data.yaml")
