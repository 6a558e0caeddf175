"""What a run writes down: a row per epoch, a summary, and versions and hardware; the rows for experiment loggers too.

Nothing that names a person or a machine is written.
"""

import csv
import importlib.metadata
import io
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from yolofast._version import __version__
from yolofast.files.atomic_file import write_whole
from yolofast.files.known_numbers import without_nan
from yolofast.runs.layout import EPOCH, FILES, MEMORY, SPEED, TIME, columns_of, epoch_in_json
from yolofast.runs.reader import RunFolder
from yolofast.train.loggers.delivery import LoggerDelivery

_PACKAGES = (
    "torch", "numpy", "opencv-python-headless", "triton", "torchvision", "faster-coco-eval", "matplotlib",
    "tensorboard", "mlflow", "wandb",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """The content of `env.json`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        **_gpus(),
        "yolofast": __version__,  # also where it runs from a folder and is not installed
        **{name: _version(name) for name in _PACKAGES},
    }


def _gpus() -> dict[str, Any]:
    if not torch.cuda.is_available():
        return {"gpu": None, "gpus": 0, "gpu_memory_gib": None, "cuda": torch.version.cuda, "cudnn": None}
    return {
        "gpu": torch.cuda.get_device_name(),
        "gpus": torch.cuda.device_count(),
        "gpu_memory_gib": round(torch.cuda.get_device_properties().total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # only Linux has it
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Recorder:
    """`results.csv` is written anew and whole after every epoch, so a resumed run never has a row twice."""

    def __init__(
        self, folder: Path, rows: list[dict[str, Any]] | None = None, loggers: LoggerDelivery | None = None
    ) -> None:
        self.folder, self.rows, self._loggers = folder, list(rows or []), loggers
        self._has_ended = False

    def epoch(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        text = io.StringIO()
        columns = [name for name, _ in columns_of(dict.fromkeys(name for row in self.rows for name in row))]
        writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: short(value) for key, value in row.items()} for row in self.rows)
        write_whole(self.folder / FILES.results, text.getvalue().encode())
        if self._loggers is not None:
            self._loggers.epoch(row)

    def picture(self, epoch: int, path: Path) -> None:
        """For the loggers; the run's folder has it already."""
        if self._loggers is not None:
            self._loggers.picture(epoch, path)

    def summary(self, values: dict[str, Any]) -> None:
        """Comes when all else but the report is there."""
        self._write(FILES.summary, values)
        self._has_ended = True

    def is_complete(self, epochs: int) -> bool:
        """Whether the run has come to its end, now or, if it has all its epochs, in an earlier process."""
        if self._has_ended or len(self.rows) < epochs:
            return self._has_ended
        return RunFolder(self.folder).entries(FILES.summary).get("epochs") == len(self.rows)

    def interrupted(self, paused: str = "") -> None:
        """So that nobody takes it for a resumed run. `paused` is why it paused, if it was not interrupted."""
        self._write(FILES.interrupted, {"epochs": len(self.rows), **({"paused": paused} if paused else {})})

    def environment(self, network: dict[str, Any] | None = None) -> None:
        """`network` is what there is to say of it."""
        self._write(FILES.environment, {**(network or {}), **environment()})

    def close(self, complete: bool = False) -> None:
        """`complete`: the run came to its end and everything is in its folder. Only the first call counts."""
        if self._loggers is not None:
            self._loggers.close(complete)

    def _write(self, name: str, values: dict[str, Any]) -> None:
        write_whole(self.folder / name, (json.dumps(values, indent=2) + "\n").encode())


class NoRecorder(Recorder):
    """Of ranks after the first, which have no folder."""

    def __init__(self) -> None:
        super().__init__(Path())

    def epoch(self, row: dict[str, Any]) -> None:
        pass


def summary_of(rows: Sequence[Mapping[str, Any]], best_epoch: int, wall_seconds: float) -> dict[str, Any]:
    """A run in a few numbers. `best_epoch` is that of its row, from 0.

    Rows cover all of a resumed run; `wall_seconds` are those of this process alone.
    """
    seconds = rows[-1][TIME.name] if rows else 0.0
    before = [0.0, *(row[TIME.name] for row in rows)]
    images = sum(row[SPEED.name] * (row[TIME.name] - start) for row, start in zip(rows, before, strict=False))
    best = next((row for row in rows if row[EPOCH.name] == best_epoch), {})
    scores = [
        name for name, column in columns_of(best) if column.source in ("metric", "validation loss") and name in best
    ]
    return {
        "epochs": len(rows),
        **epoch_in_json("best_epoch", best_epoch),
        "best": without_nan({name: best[name] for name in scores}),
        "train_seconds": round(seconds, 3),
        "wall_seconds": round(wall_seconds, 3),
        "images_per_second": round(images / seconds, 1) if seconds else 0.0,
        "peak_gpu_memory_gib": round(max((row[MEMORY.name] for row in rows), default=0.0), 3),
    }


def short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
