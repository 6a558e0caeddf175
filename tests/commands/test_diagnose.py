"""`yolofast diagnose` on a real small run, and on logs of other trainers."""

import csv
import json

import cv2
import numpy as np
import pytest

from tests.report.logs.logs import falling, results_txt, train_log
from yolofast.cli import main


@pytest.fixture(scope="module")
def run(trained_folder):
    return trained_folder / "runs" / "run"


def test_a_run_records_its_batches(run):
    rows = list(csv.DictReader((run / "batches.csv").open()))
    results = list(csv.DictReader((run / "results.csv").open()))
    assert [(row["epoch"], row["batch"]) for row in rows] == [(str(e), str(b)) for e in range(3) for b in range(6)]
    for number, epoch in enumerate(results):
        for term in ("box", "obj", "cls"):
            mean = np.mean([float(row[term]) for row in rows if row["epoch"] == str(number)])
            assert mean == pytest.approx(float(epoch[f"train/{term}_loss"]), rel=1e-4)
    assert all(
        float(row["total"]) == pytest.approx(sum(float(row[t]) for t in ("box", "obj", "cls")), rel=1e-4)
        for row in rows
    )
    assert all(float(row["boxes"]) > 0 and 0 < float(row["box_size"]) < 1 and row["assigner"] == "ota" for row in rows)
    assert [float(row["mosaic"]) for row in rows] == [1.0] * 12 + [0.0] * 6
    assert float(rows[0]["gradient_norm"]) > 0
    assert (run / "hyp.yaml").read_text().startswith("lr0: 0.01")


def test_a_run_s_folder(run, tmp_path, capsys):
    picture = tmp_path / "new" / "diagnosis.png"
    assert main(["diagnose", str(run), "--plot", str(picture)]) == 0
    output = capsys.readouterr().out
    assert "run folder, 3 epochs, 18 losses, one per batch" in output and "mosaic closed" in output
    assert "ship: epoch" in output and f"weights: {run / 'weights' / 'best.pt'}" in output
    ship = next(line for line in output.splitlines() if line.startswith("ship"))
    assert ship.replace("ship: epoch", "Epoch to ship:") in (run / "report.html").read_text(), "the same words"
    assert cv2.imread(str(picture)).std() > 0


def test_json_has_no_nan(run, capsys):
    assert main(["diagnose", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["epochs"] == 3 and found["losses_are_of"] == "batch" and len(found["phases"]) >= 2


def test_yolov7_s_log(tmp_path, capsys):
    share = np.arange(60) / 60
    val = falling(60, 1) * (1 + 0.8 * np.maximum(share - 0.4, 0)) / np.where(share > 0.4, falling(60, 2, 0) / 4.9, 1.0)
    (tmp_path / "results.txt").write_text(results_txt(falling(60), val, 0.4 - (share - 0.4) ** 2))
    assert main(["diagnose", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "YOLOv7 results.txt, 60 epochs" in output and "overfitting: since epoch 2" in output
    assert "settings to try:\n  epochs: 60 -> 2" in output


def test_a_smooth_loss_is_not_divided(tmp_path, capsys):
    rows = "".join(f"{i},{5 + 0.01 * np.sin(i / 9):.5f}\n" for i in range(80))
    (tmp_path / "a.csv").write_text("epoch,loss\n" + rows)
    assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
    output = capsys.readouterr().out
    assert "too little to explain" in output and "Of that variance" not in output
    (tmp_path / "a.csv").write_text("epoch,loss\n0,5\n")
    assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
    assert "1 epoch, 1 losses" not in (output := capsys.readouterr().out) and "1 epoch, 1 loss, one per" in output
    assert "1 loss is too little to judge by: 6 epochs are the least" in output
    assert "very stable" not in output and "conspicuous" not in output


def test_the_epoch_to_ship_is_reported_by_its_own_numbers(tmp_path, capsys):
    scores = [0.1, 0.2, 0.30, 0.31, 0.305, 0.312, 0.306, 0.29]
    val = [9.0, 8.0, 5.0, 4.0, 4.1, 4.5, 4.6, 4.7]

    def shipped(heading, *columns):
        rows = "".join(f"{n},5,{','.join(map(str, row))}\n" for n, row in enumerate(zip(*columns, strict=True)))
        (tmp_path / "a.csv").write_text(f"epoch,loss,{heading}\n{rows}")
        (tmp_path / "args.yaml").write_text("epochs: 20\n")
        assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
        output = capsys.readouterr().out
        assert "8 of 20 epochs" in output
        return next(line for line in output.splitlines() if line.startswith("ship"))

    decided = shipped("mAP50,val_loss", scores, val)
    assert decided.startswith("ship: epoch 4 (mAP50 is 0.31; 2 epochs are within the noise of 0.0046")
    assert decided.endswith("of the highest, and of these it has the lowest validation loss)")
    others = "1 other epoch is within its noise of 0.0046"
    assert shipped("mAP", scores).startswith(f"ship: epoch 6 (highest mAP: 0.312; {others}")
    assert shipped("val_loss", val).startswith("ship: epoch 4 (lowest validation loss: 4")


def test_what_was_not_recorded_is_not_called_nothing(tmp_path, capsys):
    noise = np.random.default_rng(0).standard_normal(200)
    rows = "".join(f"{i // 10},{i},{5 + 0.3 * x:.4f},{20 + i % 3}\n" for i, x in enumerate(noise))
    (tmp_path / "a.csv").write_text("epoch,batch,loss,boxes\n" + rows)
    assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Of that variance" in line]
    assert "the rest 100%; nothing from boxes, a period, learning rate, other wandering" in line
    assert line.endswith("; not recorded: mosaic and mixup, image size (multi-scale)")


def test_remarks_are_reported(tmp_path, capsys):
    rows = [f"{i},5,{val}" for i, val in enumerate([1087, 31856, 153] + [5.5] * 27)]
    (tmp_path / "a.csv").write_text("\n".join(["epoch,loss,val_loss", *rows]) + "\n")
    assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
    assert "note: the validation loss was 31,856 in epoch 2" in capsys.readouterr().out.replace("\n", " ")
    assert main(["diagnose", str(tmp_path / "a.csv"), "--json"]) == 0
    assert "BatchNorm" in json.loads(capsys.readouterr().out)["remarks"][0]


def test_huge_losses_are_not_called_no_numbers_only(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("epoch,loss\n" + "".join(f"{i},1e300\n" for i in range(60)))
    assert main(["diagnose", str(tmp_path / "a.csv")]) == 0
    assert "NaN, or above 1e+30, in 60 epochs" in capsys.readouterr().out


def test_yolox_s_log(tmp_path, capsys):
    place = np.arange(6000)
    loss = falling(6000, noise=0.03) * (1 + 0.1 * np.sin(2 * np.pi * place / 400))
    (tmp_path / "train_log.txt").write_text(train_log(loss, np.full(6000, 1e-3), 200, scores=np.linspace(0.1, 0.3, 30)))
    assert main(["diagnose", str(tmp_path / "train_log.txt"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (verdict,) = found["verdicts"]
    assert verdict["kind"] == "oscillation" and verdict["numbers"]["period"] == pytest.approx(2, rel=0.01)
    assert found["ship"]["epoch"] == 30


def test_mistakes_cost_one_message(tmp_path, capsys):
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.csv").write_text("epoch,loss\n0,1\n")
    assert main(["diagnose", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "is a folder of runs" in message and f"give one of them: {tmp_path / 'run'}" in message
    (tmp_path / "best.pt").write_bytes(b"PK\x03\x04\0\0")
    assert main(["diagnose", str(tmp_path / "best.pt")]) == 2
    assert "is not text" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("epoch,loss\n0,1\n")
    assert main(["diagnose", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.xyz")]) == 2
    assert "ends in .png" in capsys.readouterr().err
