"""Run folders as `train` leaves them, made up in a moment."""

import json
import math
import os
import re
import sys
import time
from pathlib import Path

import pytest

COLUMNS = (
    "epoch,time,train/box_loss,train/obj_loss,train/cls_loss,metrics/precision(B),metrics/recall(B),metrics/mAP50(B),"
    "metrics/mAP50-95(B),val/box_loss,val/obj_loss,val/cls_loss,lr/pg0,lr/pg1,lr/pg2,img/s,data_wait,gpu_memory"
)
BATCH_COLUMNS = "epoch,batch,total,box,obj,cls,l1,boxes,box_size,gradient_norm,mosaic,mixup,lr,size,trainable,assigner"


def row(epoch: int, quality: float = 1.0) -> str:
    learned = 1 - math.exp(-epoch / 5 * quality)
    losses = [0.08 * math.exp(-learned), 0.03 * math.exp(-learned), 0.05 * math.exp(-learned)]
    scores = [0.7 * learned, 0.6 * learned, 0.6 * learned, 0.4 * learned]
    values = [10.0 * (epoch + 1), *losses, *scores, *losses, 0.01, 0.01, 0.01, 900.0, 0.02, 0.0]
    return ",".join([str(epoch), *(f"{value:.6g}" for value in values)])


def batch_row(epoch: int, batch: int, loss: float = 0.1) -> str:
    return f"{epoch},{batch},{loss:.6g},0.05,0.03,0.02,0,90,0.3,1,1,0,0.01,320,6000000,ota"


def make_run(
    folder: Path,
    epochs: int = 10,
    done: int = 10,
    quality: float = 1.0,
    finished: bool = True,
    age: float = 0.0,
    environment: dict[str, object] | None = None,
    **settings: object,
) -> Path:
    """`age`: seconds since its files were written."""
    folder.mkdir(parents=True)
    given = {"cfg": "yolov7-tiny", "data": "shapes", "epochs": epochs, "batch_size": 16, **settings}
    (folder / "args.yaml").write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in given.items()))
    (folder / "env.json").write_text(json.dumps(environment or {}))
    if done:
        lines = [COLUMNS, *(row(epoch, quality) for epoch in range(done))]
        (folder / "results.csv").write_text("\n".join(lines) + "\n")
        batches = [batch_row(epoch, batch, 0.2 / (1 + epoch)) for epoch in range(done) for batch in range(4)]
        (folder / "batches.csv").write_text("\n".join([BATCH_COLUMNS, *batches]) + "\n")
    if finished:
        (folder / "summary.json").write_text(json.dumps({"epochs": done}))
    then = time.time() - age
    for path in folder.iterdir():
        os.utime(path, (then, then))
    return folder


def append(folder: Path, text: str, name: str = "results.csv") -> None:
    with (folder / name).open("a") as file:
        file.write(text)


counts_bytes = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux counts the bytes that are read"
)


def bytes_read() -> int:
    """By this process, so far."""
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])
