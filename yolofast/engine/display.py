"""What a run shows while it goes: a moving line on a terminal, a plain one every few seconds elsewhere, and on both a
line per epoch.

The step is never waited for: losses are those of a moment ago (`LateLosses`), the rest is known to the host.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn

from yolofast.engine.lasting_console import LastingConsole, say_on_stderr
from yolofast.engine.record import terms_of
from yolofast.words import clock

_MEMORY, _L1 = "GPU GiB", "l1"
_COLUMNS = (
    ("P", 8), ("R", 8), ("mAP50", 8), ("mAP", 8), ("lr", 10), ("img/s", 9), ("wait", 7), (_MEMORY, 9), ("left", 9),
)  # fmt: skip
_LOSS_WIDTH = 9
_METRICS = ("metrics/precision(B)", "metrics/recall(B)", "metrics/mAP50(B)", "metrics/mAP50-95(B)")
_LOOK_EVERY = 0.25
"""Seconds between two looks at the figures of a running epoch; a terminal shows each."""
_PLAIN_EVERY = 10.0
"""Seconds between two lines in a file or pipe."""
_ROOM_FOR_A_BAR = 130
"""Columns of a terminal."""

Losses = Callable[[], Mapping[str, float]]


class Display:
    def __init__(self, epochs: int, console: Console | None = None, plain_every: float = _PLAIN_EVERY) -> None:
        self.console = console or LastingConsole(self._output_lost)
        self.folder: Path | None = None
        """Where the run writes, once it has one."""
        self._is_lost = False
        self._epochs, self._plain_every = epochs, plain_every
        self._live = self.console.is_terminal and (console is not None or sys.stdout.isatty())
        self._said_header = self._has_gpu = False
        self._started, self._finished = 0.0, 0

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def insist(self, text: str) -> None:
        """As `say`, and on standard error if nobody reads standard output any more."""
        self.say(text)
        if self._is_lost:
            say_on_stderr(text)

    @contextmanager
    def epoch(self, epoch: int, batches: int, losses: Losses = dict) -> Iterator["EpochLine"]:
        """`losses` gives the latest means that are known, without waiting."""
        self._started = self._started or time.monotonic()
        title = f"epoch {epoch + 1}/{self._epochs}"

        def left(share: float) -> float:
            return self._seconds_left(epoch + share, self._finished + share)

        if not self._live:
            yield EpochLine(batches, losses, left, _plain_lines(self.say, title, batches), self._plain_every)
            return
        with Progress(*self._columns(), console=self.console, transient=True, auto_refresh=False) as progress:
            task = progress.add_task(title, total=batches, figures="")
            yield EpochLine(batches, losses, left, _moving_line(progress, task), _LOOK_EVERY)

    def doing(self, what: str) -> AbstractContextManager[object]:
        """A sign of life while something else than training goes on; for terminals only."""
        return self.console.status(what) if self._live else nullcontext()

    def result(self, row: Mapping[str, Any]) -> None:
        """One line for an epoch that is over, evaluated and saved; a loss of None was undone."""
        self._finished += 1
        terms = terms_of([row])
        if not self._said_header:
            self._has_gpu = row["gpu_memory"] > 0
            absent = {_MEMORY} if not self._has_gpu else set()
            losses = "".join(f"{term:>{_LOSS_WIDTH}}" for term in terms)
            others = "".join(f"{name:>{width}}" for name, width in _COLUMNS if name not in absent)
            self.say(f"{'epoch':>9}{losses}{others}")
            self._said_header = True
        left = self._seconds_left(row["epoch"] + 1, self._finished)
        losses = "".join(f"{_loss(row[f'train/{term}_loss']):>{_LOSS_WIDTH}}" for term in terms)
        scores = "".join(f"{row[key]:>8.3f}" if key in row else f"{'-':>8}" for key in _METRICS)
        count = f"{int(row['epoch']) + 1}/{self._epochs}"
        speed = f"{row['lr/pg0']:>10.3g}{row['img/s']:>9,.0f}{row['data_wait']:>7.0%}"
        memory = f"{row['gpu_memory']:>9.2f}" if self._has_gpu else ""
        self.say(f"{count:>9}{losses}{scores}{speed}{memory}{clock(left):>9}")

    def _output_lost(self, why: str) -> None:
        self._is_lost = True
        results = "results.csv in its folder" if self.folder is None else self.folder / "results.csv"
        say_on_stderr(f"yolofast: standard output {why}, which does not stop a run: see {results}")

    def _seconds_left(self, epochs: float, by_this_process: float) -> float:
        """After so many epochs; a resumed run knows nothing of how long the earlier ones took."""
        return (time.monotonic() - self._started) / max(by_this_process, 1e-9) * (self._epochs - epochs)

    def _columns(self) -> list[ProgressColumn]:
        figures = "{task.fields[figures]}"
        if self.console.width < _ROOM_FOR_A_BAR:  # one column, which is cut off at its end and nowhere else
            return [TextColumn("{task.description} {task.completed}/{task.total} " + figures, markup=False)]
        return [
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(20),
            TextColumn(figures, markup=False),
        ]


class EpochLine:
    """Told of every batch, it shows how things stand every so many seconds."""

    def __init__(
        self,
        batches: int,
        losses: Losses,
        seconds_left: Callable[[float], float],
        show: Callable[[int, str], None],
        show_every: float,
    ) -> None:
        self._batches, self._losses, self._seconds_left = batches, losses, seconds_left
        self._show, self._show_every = show, show_every
        self._began = self._looked = self._shown = time.monotonic()
        self._done, self._images = 0, 0

    def batch_done(self, images: int, waited: float, lr: float) -> None:
        """`waited`: seconds of the epoch that went by without a batch to train on."""
        self._done += 1
        self._images += images
        now = time.monotonic()
        if now - self._looked < min(_LOOK_EVERY, self._show_every):
            return
        self._looked = now
        losses = self._losses()
        if now - self._shown >= self._show_every:
            self._shown = now
            self._show(self._done, self._figures(losses, now - self._began, waited, lr))

    def _figures(self, losses: Mapping[str, float], seconds: float, waited: float, lr: float) -> str:
        """What matters most comes first: narrow terminals cut the end off."""
        shown = [name for name in losses if name != "total" and (name != _L1 or losses[name])]
        terms = " ".join(f"{name} {_loss(losses[name])}" for name in shown)
        speed = f"{self._images / seconds:,.0f} img/s, wait {waited / seconds:.0%}"
        taken = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
        memory = f", GPU {taken / 2**30:.1f} GiB" if taken else ""
        left = clock(self._seconds_left(self._done / self._batches))
        return f"{terms}{', ' if terms else ''}left {left}, {speed}, lr {lr:.3g}{memory}"


def _plain_lines(say: Callable[[str], None], title: str, batches: int) -> Callable[[int, str], None]:
    return lambda done, figures: say(f"{title}, batch {done}/{batches}: {figures}")


def _moving_line(progress: Progress, task: TaskID) -> Callable[[int, str], None]:
    return lambda done, figures: progress.update(task, completed=done, figures=figures, refresh=True)


def _loss(value: float | None) -> str:
    """In eight letters, however far it has run away."""
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.2g}"
