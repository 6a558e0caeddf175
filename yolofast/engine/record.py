"""What a run writes down: a row per epoch, the settings, the machine, and scalars for TensorBoard."""

import csv
import importlib.metadata
import io
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch

from yolofast.atomic_file import write_whole

COLUMNS = (
    "epoch", "time", "train/box_loss", "train/obj_loss", "train/cls_loss", "metrics/precision(B)", "metrics/recall(B)",
    "metrics/mAP50(B)", "metrics/mAP50-95(B)", "val/box_loss", "val/obj_loss", "val/cls_loss", "lr/pg0", "lr/pg1",
    "lr/pg2", "img/s", "data_wait", "gpu_memory",
)  # fmt: skip
_PACKAGES = ("yolofast", "torch", "numpy", "opencv-python-headless", "triton")


class Recorder:
    """`results.csv` is written anew and whole after every epoch, so a resumed run never has a row twice."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]] | None = None) -> None:
        self.folder, self.rows = folder, list(rows or [])
        self._board: Any = None

    def epoch(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in self.rows)
        write_whole(self.folder / "results.csv", text.getvalue().encode())
        self._log(row)

    def summary(self, values: dict[str, Any]) -> None:
        write_whole(self.folder / "summary.json", (json.dumps(values, indent=2) + "\n").encode())

    def environment(self) -> None:
        write_whole(self.folder / "env.json", (json.dumps(environment(), indent=2) + "\n").encode())

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _log(self, row: dict[str, Any]) -> None:
        if self._board is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:  # an extra: nothing is lost without it
                return
            self._board = SummaryWriter(str(self.folder))
        for key, value in row.items():
            if key != "epoch" and isinstance(value, int | float):
                self._board.add_scalar(key, value, row["epoch"])


def environment() -> dict[str, Any]:
    """What a figure of this run has to be read with."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_cores": os.cpu_count(),
        "gpu": gpu,
        "cuda": torch.version.cuda,
        **{name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
