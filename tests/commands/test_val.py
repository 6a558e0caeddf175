"""`yolofast val` as typed: sizes, files, several networks, speed."""

import json

import numpy as np
import pytest

from tests.detect.seeing import save_seeing
from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import strip_checkpoint
from yolofast.cli import main, parse
from yolofast.commands import val
from yolofast.config.flags import from_args
from yolofast.config.predict import ValConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split
from yolofast.detect.networks import read_trained
from yolofast.detect.validation import open_subject, study
from yolofast.evaluate.study import save_study_plot, save_study_text


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_shapes(tmp_path_factory.mktemp("data") / "shapes", n=24)


@pytest.fixture(scope="module")
def index(data):
    return read_split(data, "val")


@pytest.fixture(scope="module")
def weights(tmp_path_factory, index):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", names=index.names, img_size=96)


def words(data, weights, project, *more):
    named = ["--data", str(data), "--weights", str(weights), "--project", str(project)]
    return ["val", *named, "--device", "cpu", "--cache", "off", *more]


def label_rows(file):
    return np.array([[float(value) for value in line.split()] for line in file.read_text().splitlines()])


@pytest.mark.slow
def test_the_size_of_training_is_the_default_also_of_stripped_weights(data, weights, tmp_path, capsys):
    stripped = strip_checkpoint(weights, tmp_path / "stripped.pt")
    assert read_weights(stripped).img_size == 96
    assert main(words(data, stripped, tmp_path / "a", "--no-plots")) == 0
    assert "at 96 pixels" in capsys.readouterr().out
    assert main(words(data, stripped, tmp_path / "b", "--no-plots", "--img", "70")) == 0
    said = capsys.readouterr().out
    assert "not a multiple of the stride 16" in said and "at 80 pixels" in said


@pytest.mark.slow
def test_pictures_and_label_files(data, weights, index, tmp_path):
    assert main(words(data, weights, tmp_path, "--save-txt", "--save-conf", "--batch-size", "4", "--max-det", "7")) == 0
    made = {p.name for p in (tmp_path / "exp").iterdir()}
    assert {f"val_batch{n}_{kind}.jpg" for n in (0,) for kind in ("labels", "pred")} <= made and "PR_curve.png" in made
    files = sorted((tmp_path / "exp" / "labels").iterdir())
    assert [file.stem for file in files] == sorted(index.path(n).stem for n in range(len(index)))
    rows = label_rows(files[0])
    assert rows.shape == (7, 6) and (rows[:, 1:] >= 0).all() and (rows[:, 1:] <= 1).all()
    assert (np.diff(rows[:, 5]) <= 0).all()


def test_hybrid_files_hold_every_label_first(data, weights, index, tmp_path):
    assert main(words(data, weights, tmp_path, "--save-hybrid", "--save-conf", "--no-plots")) == 0
    for place in range(len(index)):
        own = index.boxes_of(place)
        rows = label_rows(tmp_path / "exp" / "labels" / f"{index.path(place).stem}.txt")
        count = own.stop - own.start
        assert len(rows) >= count and (rows[:count, 5] == 1).all() and (rows[count:, 5] < 1).all()
        assert rows[:count, 0].tolist() == index.labels[own].tolist()
        np.testing.assert_allclose(rows[:count, 1:5], index.boxes[own], atol=1e-5)


@pytest.mark.slow
def test_few_classes_have_a_row_each(data, weights, tmp_path, capsys, monkeypatch):
    assert main(words(data, weights, tmp_path, "--no-plots")) == 0
    assert capsys.readouterr().out.count("circle") == 1
    monkeypatch.setattr(val, "_FEW_CLASSES", 7)
    assert main(words(data, weights, tmp_path, "--no-plots")) == 0
    assert "circle" not in capsys.readouterr().out


def test_coco_metrics_by_size(data, weights, tmp_path, capsys):
    assert main(words(data, weights, tmp_path, "--coco", "--verbose", "--no-plots")) == 0
    said = capsys.readouterr().out
    assert "small" in said and "medium" in said and "large" in said and said.count("circle") == 2
    assert "ap_small" in json.loads((tmp_path / "exp" / "coco.json").read_text())["all"]
    assert not (tmp_path / "exp" / "predictions.json").exists()


@pytest.mark.slow
def test_several_networks_looks_and_one_class(data, weights, index, tmp_path, capsys):
    """The same network twice changes nothing: of two equal boxes one stays."""
    found = {}
    for name, more in {"one": [], "twice": ["--weights", str(weights), str(weights)], "often": ["--augment"]}.items():
        flags = ["--no-plots", "--save-txt", "--save-conf", "--max-det", "20"]
        assert main(words(data, weights, tmp_path / name, *flags, *more)) == 0
        found[name] = [label_rows(file) for file in sorted((tmp_path / name / "exp" / "labels").iterdir())]
    for one, twice, often in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, twice, atol=1e-5)
        assert often[0, 5] >= one[0, 5] - 1e-5 and not np.array_equal(one, often)
    capsys.readouterr()
    assert main(words(data, weights, tmp_path / "single", "--single-cls", "--no-plots", "--verbose")) == 0
    assert "circle" not in capsys.readouterr().out


def test_speed(data, weights, tmp_path, capsys):
    flags = ("--task", "speed", "--img", "64", "--no-trace", "--single-cls")
    assert main(words(data, weights, tmp_path / "speed", *flags)) == 0
    said = capsys.readouterr().out
    assert "ms inference" in said and "ms NMS" in said and "ms total per image at 64 pixels" in said
    assert not (tmp_path / "speed").exists()


@pytest.mark.slow
def test_a_study_of_sizes(data, weights, tmp_path):
    config = from_args(ValConfig, parse(words(data, weights, tmp_path, "--task", "study")))
    subject = open_subject(config, [read_trained(weights)], lambda text: None)
    rows = study(subject, (64, 96))
    text = save_study_text(tmp_path / "study.txt", rows).read_text().splitlines()
    assert text[0].split()[:3] == ["#", "size", "P"] and [line.split()[0] for line in text[1:]] == ["64", "96"]
    assert np.loadtxt(tmp_path / "study.txt").shape == (2, 8)
    assert rows[0].timing.total > 0 and rows[0].metrics.images == len(subject.index)
    assert save_study_plot(tmp_path / "study.png", {"some": rows}).stat().st_size > 1000


def test_weights_for_other_classes_are_refused(data, tmp_path, capsys):
    stranger = save_seeing(tmp_path / "stranger.pt")
    assert main(words(data, stranger, tmp_path / "out")) == 2
    assert "has 3 classes" in capsys.readouterr().err and not (tmp_path / "out").exists()
