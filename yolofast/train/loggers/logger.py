"""What every experiment logger can do with a run, and TensorBoard, which needs no server.

All packages behind them are extras, imported when a run starts.

Under which names the loggers know a run, kept in its folder, so that a resumed run continues there.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from yolofast.config.train import TrainConfig
from yolofast.files.atomic_file import write_whole
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import read_picture
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder

Say = Callable[[str], None]

_CONTENTS = (FILES.settings, FILES.environment, FILES.summary, FILES.results)
_PICTURES = ("*.png", "*.jpg")


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """What a logger knows of a run when it starts."""

    folder: Path
    settings: dict[str, Any]
    next_epoch: int = 0
    """Above 0 for a resumed run, which continues in the logger's record where it stopped."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def project(self) -> str:
        """Runs that belong together: the last part of `--project`."""
        return self.folder.resolve().parent.name or "yolofast"

    def files(self) -> list[Path]:
        """Records and pictures, as they are now."""
        records = [self.folder / name for name in _CONTENTS]
        pictures = [path for pattern in _PICTURES for path in sorted(self.folder.glob(pattern))]
        return [path for path in (*records, *pictures) if path.is_file()]


class ExperimentLogger(Protocol):
    """Methods may raise and may take their time: they are called from a thread that waits for nobody."""

    title: str

    def start(self, run: LoggedRun) -> str | None:
        """Imports what it needs and opens the record; returns where that can be looked at, if it is worth saying."""

    def scalars(self, epoch: int, values: dict[str, float]) -> None: ...

    def picture(self, epoch: int, path: Path) -> None:
        """Predicted boxes after an epoch."""

    def finish(self, complete: bool) -> None:
        """`complete`: the run came to its end, and its files are there."""


class TensorBoardLogger:
    """Events in the run's folder, so `tensorboard --logdir runs/train` compares all runs; it sends nothing away."""

    title = "TensorBoard"
    _writer: Any = None

    def start(self, run: LoggedRun) -> str | None:
        self._run = run
        return None

    def _open(self) -> None:
        """When there is something to say: the import takes half a second, which the first steps need."""
        if self._writer is None:
            writer = import_module("torch.utils.tensorboard").SummaryWriter
            # A resumed run repeats the epoch it was killed in: what that had written is not to be shown twice.
            self._writer = writer(str(self._run.folder), purge_step=self._run.next_epoch or None)

    def scalars(self, epoch: int, values: dict[str, float]) -> None:
        self._open()
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()  # so that it is seen while the next epoch runs

    def picture(self, epoch: int, path: Path) -> None:
        self._open()
        pixels = read_picture(path)[..., ::-1]
        self._writer.add_image("predictions", pixels, epoch, dataformats="HWC")

    def finish(self, complete: bool) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True, kw_only=True)
class LoggerRequest:
    """By which is decided whether a run wants a logger."""

    config: TrainConfig
    splits: Sequence[ImageIndex]
    """What `--upload_dataset` uploads."""
    environment: Mapping[str, str]
    say: Say


_writing = threading.Lock()  # loggers start at the same time, each in its thread


def id_of_resumed(run: LoggedRun, logger: str) -> str | None:
    """None for a new run, also in the folder of an old one."""
    return RunFolder(run.folder).entries(FILES.loggers).get(logger) if run.next_epoch else None


def keep_id(run: LoggedRun, logger: str, identity: str) -> None:
    with _writing:
        ids = {**RunFolder(run.folder).entries(FILES.loggers), logger: identity}
        write_whole(run.folder / FILES.loggers, (json.dumps(ids, indent=2) + "\n").encode())
