"""What a run writes down."""

import json

import pytest

from yolofast.train.record import Recorder, environment, summary_of

ROWS = [
    {"epoch": 0, "time": 10.0, "img/s": 100.0, "gpu_memory": 2.0, "metrics/mAP50(B)": 0.1, "lr/pg0": 0.1},
    {"epoch": 1, "time": 15.0, "img/s": 200.0, "gpu_memory": 3.0, "metrics/mAP50(B)": 0.3, "lr/pg0": 0.1},
    {"epoch": 2, "time": 20.0, "img/s": 200.0, "gpu_memory": 3.0, "metrics/mAP50(B)": 0.2, "lr/pg0": 0.1},
]


def test_summary():
    # 10 s of 100 and 10 s of 200 images per second
    assert summary_of(ROWS, 1, 33.3) == {
        "epochs": 3, "best_epoch": 2, "epochs_counted_from": 1, "best": {"metrics/mAP50(B)": 0.3},
        "train_seconds": 20.0, "wall_seconds": 33.3, "images_per_second": pytest.approx(150),
        "peak_gpu_memory_gib": 3.0,
    }  # fmt: skip


def test_a_run_without_epochs_has_a_summary_too():
    summary = summary_of([], -1, 1.0)
    assert summary["images_per_second"] == 0 and summary["best_epoch"] is None


def test_columns_that_nobody_knows_are_left_out(tmp_path):
    """Of a checkpoint from elsewhere."""
    recorder = Recorder(tmp_path, [{**ROWS[0], "\0": 1.0, "{{7*7}}": None}])
    recorder.epoch(ROWS[1])
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert len(lines) == 3 and "{" not in lines[0] and len({line.count(",") for line in lines}) == 1


def test_files_are_json(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.environment()
    recorder.summary(summary_of(ROWS, 1, 2.0))
    recorder.close()
    assert json.loads((tmp_path / "summary.json").read_text())["best_epoch"] == 2
    written = json.loads((tmp_path / "env.json").read_text())
    assert written == environment() and {"python", "torch", "cpu", "memory_gib", "gpu", "cuda"} <= set(written)
