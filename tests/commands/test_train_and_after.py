"""The commands of a run, one after the other, as a user types them."""

import csv
import json
import shutil

import pytest

from tests.train.small_run import flags
from yolofast.cli import main


@pytest.fixture(scope="module")
def trained(trained_folder, tmp_path_factory):
    return shutil.copytree(trained_folder, tmp_path_factory.mktemp("after") / "copy")


def test_the_run_folder(trained):
    run = trained / "runs" / "run"
    assert {"args.yaml", "env.json", "results.csv", "summary.json", "weights"} <= {p.name for p in run.iterdir()}
    rows = list(csv.DictReader((run / "results.csv").open()))
    row = rows[0]
    assert (
        len(rows) == 3
        and row["epoch"] == "0"
        and float(row["train/box_loss"]) > 0
        and float(row["metrics/mAP50(B)"]) >= 0
    )
    assert json.loads((run / "summary.json").read_text())["epochs"] == 3
    assert (run / "weights" / "best.pt").stat().st_size < 15_000_000  # half precision, weights alone


def test_val(trained, capsys):
    data, best = trained / "shapes" / "data.yaml", trained / "runs" / "run" / "weights" / "best.pt"
    more = [
        "--img",
        "64",
        "--device",
        "cpu",
        "--cache",
        "off",
        "--save-json",
        "--verbose",
        "--project",
        str(trained / "val"),
    ]
    assert main(["val", "--data", str(data), "--weights", str(best), *more]) == 0
    assert "circle" in capsys.readouterr().out
    made = {p.name for p in (trained / "val" / "exp").iterdir()}
    assert {"PR_curve.png", "confusion_matrix.png", "predictions.json", "coco.json"} <= made


def test_predict(trained, capsys):
    best, pictures = trained / "runs" / "run" / "weights" / "best.pt", trained / "shapes" / "images" / "val"
    flags = [
        "--img",
        "64",
        "--conf",
        "0.0",
        "--max-det",
        "3",
        "--save-txt",
        "--save-conf",
        "--save-json",
        "--save-crop",
    ]
    project = trained / "predict"
    assert main(["predict", "--weights", str(best), "--source", str(pictures), "--project", str(project), *flags]) == 0
    names = {p.stem for p in pictures.iterdir()}
    assert {p.stem for p in (project / "exp" / "labels").iterdir()} == names
    assert names <= {p.stem for p in (project / "exp").glob("*.jpg")}
    rows = json.loads((project / "exp" / "predictions.json").read_text())
    assert len(rows) == 3 * len(names) and {"file", "class", "name", "score", "box"} == set(rows[0])
    label = next((project / "exp" / "labels").iterdir()).read_text().split("\n")[0].split()
    assert len(label) == 6 and all(0 <= float(value) <= 1 for value in label[1:])
    assert list((project / "exp" / "crops").rglob("*.jpg"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "--source", "nowhere/*.jpg", "--weights", "x.pt"], "holds no image"),
        (["predict", "--weights", "x.pt"], "--source is empty"),
        (["val", "--weights", "missing.pt"], "missing.pt"),
        (["train", "--batch-size", "-1", "--device", "cpu"], "this run is on the CPU"),
        (["train", "--epohcs", "3"], "did you mean"),
        (["train", "--resume", "--project", "empty"], "no run to resume"),
    ],
)
def test_mistakes_are_one_message(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as stop:  # argparse
        code = stop.code
    output = capsys.readouterr()
    assert code == 2 and message in output.err and "Traceback" not in output.err
    assert not list(tmp_path.rglob("exp*"))


@pytest.mark.slow
def test_what_would_be_compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DIAGNOSE_COMPILE", "1")
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    assert main(["train", *flags(tmp_path)]) == 0
    assert "graphs: 1, breaks: 0" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists(), "nothing was trained"
