"""Run folders as several trainers write them, made by hand."""

import json

import numpy as np
import yaml

EPOCHS = 100
# The published comparison (COCO at 320, YOLOv7-tiny): rows 10, 25, 50, 75 and 99, counted from 0.
ROWS = (0, 10, 25, 50, 75, 99)
PUBLISHED = {
    "noota": {
        "mAP50": (0.02, 0.216, 0.310, 0.365, 0.377, 0.385),
        "final": (0.568, 0.355, 0.385, 0.226),
        "losses": (0.0602, 0.0398, 0.0295, 0.1295),
        "hours": 1.81,
        "pace": 5.76,
        "loss_ota": 0,
    },
    "ota": {
        "mAP50": (0.02, 0.247, 0.304, 0.360, 0.395, 0.414),
        "final": (0.558, 0.400, 0.414, 0.251),
        "losses": (0.0357, 0.0232, 0.0192, 0.0781),
        "hours": 10.65,
        "pace": 0.97,
        "loss_ota": 1,
    },
}


GIVEN = {key: tuple(PUBLISHED[name][key] for name in ("noota", "ota")) for key in ("hours", "pace")}
"""What no file of YOLOv7 says."""
OTA_PACES = 0.85, 0.97
"""Iterations per second of OTA: its report gives a range."""


def published(folder, name, batch=64):
    """YOLOv7's files with the published figures."""
    figures, run = PUBLISHED[name], folder / name
    run.mkdir(parents=True)
    (run / "results.txt").write_text(_results_txt(figures))
    opt = {"data": "data/coco.yaml", "batch_size": batch, "epochs": EPOCHS, "img_size": [320, 320], "name": name}
    (run / "opt.yaml").write_text(yaml.safe_dump({**opt, "project": "runs/train", "workers": 16, "hyp": "hyp.yaml"}))
    (run / "hyp.yaml").write_text(yaml.safe_dump({"lr0": 0.01, "box": 0.05, "loss_ota": figures["loss_ota"]}))
    return run


def _results_txt(figures):
    share = np.interp(np.arange(EPOCHS), ROWS, figures["mAP50"]) / figures["mAP50"][-1]
    lines = []
    for epoch in range(EPOCHS):
        train = [loss * (1 + (EPOCHS - 1 - epoch) / 50) for loss in figures["losses"]]
        scores = [score * share[epoch] for score in figures["final"]]
        parts = [f"{epoch}/{EPOCHS - 1}", "3.21G", *(f"{x:.4g}" for x in train), "117", "320"]
        parts += [f"{x:.4g}" for x in (*scores, 0.05, 0.03, 0.02)]
        lines.append("".join(f"{part:>10}" for part in parts))
    return "\n".join(lines) + "\n"


ULTRALYTICS = (
    "epoch,time,train/box_loss,train/cls_loss,train/dfl_loss,metrics/precision(B),metrics/recall(B),metrics/mAP50(B),"
    "metrics/mAP50-95(B),val/box_loss,val/cls_loss,val/dfl_loss,lr/pg0,lr/pg1,lr/pg2"
)


def ultralytics(folder, scores, seconds=60.0, **args):
    folder.mkdir(parents=True)
    lines = [
        f"{epoch},{seconds * epoch:g},1.2,0.9,1.1,0.6,0.5,{1.5 * score:g},{score:g},1.3,1.0,1.2,0.01,0.01,0.01"
        for epoch, score in enumerate(scores, start=1)
    ]
    (folder / "results.csv").write_text("\n".join([ULTRALYTICS, *lines, ""]))
    (folder / "args.yaml").write_text(yaml.safe_dump({"data": "coco.yaml", "batch": 16, "imgsz": 640, **args}))
    return folder


OURS = (
    "epoch,time,train/box_loss,train/obj_loss,train/cls_loss,metrics/precision(B),metrics/recall(B),metrics/mAP50(B),"
    "metrics/mAP50-95(B),val/box_loss,val/obj_loss,val/cls_loss,lr/pg0,img/s,data_wait,gpu_memory"
)


def ours(folder, scores, seconds=10.0, environment=None, wall=None, **args):
    """`seconds` of an epoch of 1,000 images."""
    folder.mkdir(parents=True)
    lines = [
        f"{epoch},{seconds * (epoch + 1):g},0.05,0.02,0.03,0.6,0.5,{min(1.5 * score, 1):g},{score:g},"
        f"0.05,0.02,0.03,0.01,{1000 / seconds:g},0.1,2.5"
        for epoch, score in enumerate(scores)
    ]
    (folder / "results.csv").write_text("\n".join([OURS, *lines, ""]))
    settings = {"data": "voc.yaml", "batch_size": 50, "epochs": len(scores), "seed": 0, "name": folder.name, **args}
    (folder / "args.yaml").write_text(yaml.safe_dump(settings))
    (folder / "hyp.yaml").write_text(yaml.safe_dump({"lr0": 0.01, "loss_ota": 1}))
    (folder / "env.json").write_text(json.dumps({"torch": "2.8", "gpu": "card", **(environment or {})}))
    if wall is not None:
        (folder / "summary.json").write_text(json.dumps({"wall_seconds": wall, "train_seconds": seconds * len(scores)}))
    return folder


def rising(count=30, top=0.4, seed=0, noise=0.0):
    place = np.arange(1, count + 1)
    values = top * (1 - np.exp(-place / (count / 4)))
    return values + noise * np.random.default_rng(seed).standard_normal(count)
