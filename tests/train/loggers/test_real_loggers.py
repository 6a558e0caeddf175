"""The experiment loggers themselves, where they are installed, writing to disk; a run in two parts, as if resumed."""

import cv2
import numpy as np
import pytest

from yolofast.train.loggers.delivery import LoggerDelivery
from yolofast.train.loggers.logger import LoggedRun, TensorBoardLogger
from yolofast.train.loggers.mlflow import MlflowLogger
from yolofast.train.loggers.wandb import DatasetUpload, WandbLogger

SETTINGS = {"epochs": 4, "data": "data.yaml", "entity": None, "img_size": [320], **{f"s{n}": n for n in range(120)}}


def two_parts(folder, logger_class, **arguments):
    """Epochs 0 and 1, interrupted; then 1 again, as after a kill, 2 and 3."""
    (folder / "weights").mkdir(parents=True)
    (folder / "weights" / "best.pt").write_bytes(b"weights")
    (folder / "results.csv").write_text("epoch\n")
    cv2.imwrite(str(folder / "boxes.jpg"), np.zeros((32, 32, 3), np.uint8))
    said = []
    for first, last, complete in ((0, 1, False), (1, 3, True)):
        run = LoggedRun(folder=folder, settings={**SETTINGS, "epochs": last}, next_epoch=first)
        loggers = LoggerDelivery([logger_class(**arguments)], run, said.append)
        for epoch in range(first, last + 1):
            loggers.epoch({"epoch": epoch, "metrics/mAP50(B)": epoch / 10, "train/box_loss": 0.5})
        loggers.picture(last, folder / "boxes.jpg")
        loggers.close(complete)
    assert not [text for text in said if text.startswith("warning")], said
    return said


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    two_parts(tmp_path / "runs" / "exp", TensorBoardLogger)
    events = EventAccumulator(str(tmp_path / "runs" / "exp"))
    events.Reload()
    points = events.Scalars("metrics/mAP50(B)")
    assert [point.step for point in points] == [0, 1, 2, 3]
    assert [point.value for point in points] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert events.Images("predictions")


def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'store'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    two_parts(tmp_path / "runs" / "exp", MlflowLogger)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("runs").experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "exp"
    assert run.data.metrics["metrics/mAP50"] == pytest.approx(0.3) and run.data.params["epochs"] == "1"
    assert len(run.data.params) == len(SETTINGS)
    kept = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"results.csv", "boxes.jpg", "weights", "predictions"} <= kept


def test_wandb(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "runs" / "exp"
    upload = DatasetUpload(name="data", alias="v1", files=[folder / "results.csv", folder / "weights" / "best.pt"])
    said = two_parts(folder, WandbLogger, dataset=upload)
    parts = sorted(folder.glob("wandb/offline-run-*"))
    assert len(said) == 2 and len({part.name.split("-")[-1] for part in parts}) == 1  # one run, by its name
    assert all(list(part.glob("*.wandb")) for part in parts)
