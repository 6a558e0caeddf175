"""On the built-in data set a small network learns visibly within a minute of CPU time."""

import csv
import os
import subprocess
import sys

from yolofast.dataset.shapes import make_shapes
from yolofast.resources import ROOT

# Losses are scaled by image size and classes, which leaves little of them for small images of few classes.
HYP = """\
lr0: 0.03
lrf: 0.05
nbs: 16
loss_ota: 0
cls: 6.0
obj: 20.0
warmup_epochs: 1.0
warmup_bias_lr: 0.01
mosaic: 0.0
mixup: 0.0
paste_in: 0.0
translate: 0.1
scale: 0.2
hsv_h: 0.0
hsv_s: 0.0
hsv_v: 0.2
"""
UNTRAINED_MAP50 = 0.005  # what a network that knows nothing reaches


def test_losses_fall_and_objects_are_found(tmp_path):
    data = make_shapes(tmp_path / "shapes", n=400)
    (tmp_path / "hyp.yaml").write_text(HYP)
    graph = (ROOT / "cfg" / "training" / "yolov7-tiny.yaml").read_text()
    (tmp_path / "half.yaml").write_text(graph.replace("width_multiple: 1.0", "width_multiple: 0.5"))
    flags = {
        "data": data, "cfg": tmp_path / "half.yaml", "hyp": tmp_path / "hyp.yaml", "img-size": 96, "batch-size": 16,
        "epochs": 10, "workers": 0, "device": "cpu", "project": tmp_path / "runs",
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "YOLOFAST_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "yolofast", "train", "--notest", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader((tmp_path / "runs" / "exp" / "results.csv").open()))
    first, last = rows[0], rows[-1]
    assert float(last["train/box_loss"]) < 0.8 * float(first["train/box_loss"])
    assert float(last["train/cls_loss"]) < float(first["train/cls_loss"])
    assert float(last["metrics/mAP50(B)"]) > 5 * UNTRAINED_MAP50
