"""Runs made by version 0.1.0 load, are read by every page, and resume to the weights that 0.1.0 came to."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.frozen.freeze import CONFIDENCE, OLD_RUNS, OLD_SHAPES, WITH_WEIGHTS, unpack
from yolofast import Detector, build_model, load_weights
from yolofast.cli import main
from yolofast.runs.reader import RunFolder

REFERENCE = Path(__file__).parent / "resumed.npz"
KEPT = {
    "yolov7": ("model.0.conv.weight", "model.4.bn.running_var", "model.8.conv.weight", "model.9.m.1.weight"),
    "yolox": (
        "head.stems.0.conv.weight",
        "head.cls_preds.1.weight",
        "head.reg_preds.2.weight",
        "head.obj_preds.0.bias",
    ),
}
"""Of the weights and their average. The first layers depend on all others, the last ones change most."""
RELATIVE = 1e-5
"""Of a tensor's largest value. Hashes would not do: kernels of other processors round differently, by about 3e-7."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Sums are then always added in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "shapes"
    images, seed = OLD_SHAPES["images"], OLD_SHAPES["seed"]
    assert main(["dataset", "shapes", "--out", str(folder), "--n", str(images), "--seed", str(seed)]) == 0
    return folder / "data.yaml"


def weights_of(run):
    """The tensors that are compared, of last.pt."""
    state = torch.load(run / "weights" / "last.pt", weights_only=True)
    names = [(part, name) for part in ("model", "ema") for name in KEPT[run.name]]
    return {f"{run.name}/{part}/{name}": state[part][name].numpy() for part, name in names}


def difference(one, other):
    """The largest, as a share of the largest value."""
    return np.abs(one - other).max() / np.abs(other).max()


@pytest.mark.parametrize("name", WITH_WEIGHTS)
@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_weights(name, tmp_path, data):
    run = unpack(name, tmp_path)
    before = weights_of(run)
    assert json.loads((run / "interrupted.json").read_text())["epochs"] == 2
    assert main(["train", "--resume", str(run), "--data", str(data)]) == 0
    assert not (run / "interrupted.json").exists() and (run / "report.html").exists()
    rows = (run / "results.csv").read_text().splitlines()
    assert len(rows) == 1 + 4
    assert rows[:3] == (OLD_RUNS / name / "results.csv").read_text().splitlines()
    reference = np.load(REFERENCE)
    for key, value in weights_of(run).items():
        assert difference(value, reference[key]) < RELATIVE, key
        assert difference(before[key], reference[key]) > 10 * RELATIVE, f"{key} learnt nothing that would be noticed"


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_weights_load_and_detect(name, tmp_path, data):
    run = unpack(name, tmp_path)
    detector = Detector(run / "weights" / "best.pt", device="cpu")
    assert len(detector.names) == 8 and detector.size == 64
    (found,) = detector.predict(sorted(data.parent.glob("images/val/*.jpg"))[0], conf=CONFIDENCE[name])
    assert len(found.boxes)
    model = build_model(Path(__file__).parent / "inputs" / f"small_{name}.yaml")
    report = load_weights(model, run / "weights" / "last.pt")
    assert report.loaded and not report.missing


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in OLD_RUNS.iterdir()))
def test_pages_read_old_runs(name, tmp_path, capsys):
    run = unpack(name, tmp_path)
    assert main(["report", str(run)]) == 0
    assert "mAP50" in (run / "report.html").read_text()
    capsys.readouterr()
    assert main(["diagnose", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_old_runs_are_compared(tmp_path, capsys):
    runs = [str(unpack(path.name, tmp_path)) for path in sorted(OLD_RUNS.iterdir())]
    capsys.readouterr()
    assert main(["compare", *runs, "--json", "--output", str(tmp_path / "compare.html")]) == 0
    text = capsys.readouterr().out
    assert json.loads(text) and all(Path(run).name in text for run in runs)


@pytest.mark.parametrize(("name", "best"), [("yolov7-finished", 10), ("yolox-finished", None)])
def test_epochs_of_files_that_count_from_0_are_read_as_people_count(name, best):
    """`summary.json` of 0.1.0 counts from 0, that of later versions from 1."""
    run = RunFolder(OLD_RUNS / name)
    written = json.loads((OLD_RUNS / name / "summary.json").read_text())
    assert written["epochs_counted_from"] == 0 and run.summary["epochs_counted_from"] == 1
    assert run.summary["best_epoch"] == written["best_epoch"] + 1 == run.epochs()[run.best_row()]
    assert best is None or run.summary["best_epoch"] == best
