"""On the built-in data set a small network learns visibly within seconds; `make demo` continues until it is good."""

import csv
import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE
from yolofast.dataset.shapes.made_once import make_shapes

pytestmark = pytest.mark.slow


def test_losses_fall_and_objects_are_found(tmp_path):
    flags = {
        "data": make_shapes(tmp_path / "shapes", n=400), "cfg": "mini", "hyp": "data/hyp.demo.yaml",
        "optimizer": "adamw", "img-size": 96, "batch-size": 8, "epochs": 4, "workers": 0, "device": "cpu",
        "project": tmp_path / "runs",
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "YOLOFAST_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "yolofast", "train", "--notest", "--no-plots", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader((tmp_path / "runs" / "exp" / "results.csv").open()))
    first, last = rows[0], rows[-1]
    assert float(last["train/box_loss"]) < 0.85 * float(first["train/box_loss"])
    assert float(last["train/cls_loss"]) < 0.95 * float(first["train/cls_loss"])
    assert float(last["metrics/mAP50(B)"]) > 0.05, "a network that knows nothing reaches 0.005"
