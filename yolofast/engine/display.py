"""What a run shows while it goes: a moving line on a terminal, plain lines elsewhere, a line per epoch on both."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_COLUMNS = (
    ("epoch", 9), ("box", 9), ("obj", 9), ("cls", 9), ("P", 8), ("R", 8), ("mAP50", 8), ("mAP", 8), ("img/s", 9),
    ("wait", 7), ("left", 9),
)  # fmt: skip
_HEADER = "".join(f"{name:>{width}}" for name, width in _COLUMNS)


class Display:
    def __init__(self, epochs: int, console: Console | None = None) -> None:
        self.console = console or Console(soft_wrap=True, highlight=False)
        self._epochs = epochs
        self._live = self.console.is_terminal and sys.stdout.isatty()
        self._said_header = False
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    @contextmanager
    def epoch(self, epoch: int, batches: int) -> Iterator["EpochLine"]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self._live) as progress:
            task = progress.add_task(f"epoch {epoch + 1}/{self._epochs}", total=batches)
            yield EpochLine(progress, task)

    def result(self, row: dict[str, float], done: int) -> None:
        """One line for an epoch that is over; `done` epochs were run by this process."""
        if not self._said_header:
            self.say(_HEADER)
            self._said_header = True
        spent = time.monotonic() - self._started
        left = spent / max(done, 1) * (self._epochs - int(row["epoch"]) - 1)
        metrics = ("metrics/precision(B)", "metrics/recall(B)", "metrics/mAP50(B)", "metrics/mAP50-95(B)")
        losses = "".join(f"{row[f'train/{name}_loss']:>9.4f}" for name in ("box", "obj", "cls"))
        scores = "".join(f"{row[key]:>8.3f}" if key in row else f"{'-':>8}" for key in metrics)
        count = f"{int(row['epoch']) + 1}/{self._epochs}"
        self.say(f"{count:>9}{losses}{scores}{row['img/s']:>9,.0f}{row['data_wait']:>7.0%}{_duration(left):>9}")


class EpochLine:
    def __init__(self, progress: Progress, task: object) -> None:
        self._progress, self._task = progress, task

    def batch_done(self) -> None:
        self._progress.advance(self._task)  # type: ignore[arg-type]


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
