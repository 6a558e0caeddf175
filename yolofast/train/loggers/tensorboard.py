"""TensorBoard: events in the run's folder, so `tensorboard --logdir runs/train` compares all runs."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from yolofast.media.pictures import read_picture
from yolofast.train.loggers.logger import LoggedRun, LoggerRequest


class TensorBoardLogger:
    title = "TensorBoard"

    def __init__(self) -> None:
        self._writer: Any = None

    def start(self, run: LoggedRun) -> str | None:
        writer = import_module("torch.utils.tensorboard").SummaryWriter
        # A resumed run repeats the epoch it was killed in: what that had written is not to be shown twice.
        purge = run.next_epoch or None
        self._writer = writer(str(run.folder), purge_step=purge)
        return None

    def scalars(self, epoch: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()  # so that it is seen while the next epoch runs

    def picture(self, epoch: int, path: Path) -> None:
        pixels = read_picture(path)[..., ::-1]
        self._writer.add_image("predictions", pixels, epoch, dataformats="HWC")

    def finish(self, complete: bool) -> None:
        self._writer.close()


def tensorboard_of(request: LoggerRequest) -> TensorBoardLogger | None:
    """Wherever it is installed: it writes to the run's folder only."""
    return TensorBoardLogger() if find_spec("tensorboard") is not None else None
