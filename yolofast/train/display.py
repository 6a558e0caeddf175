"""What a run shows: a moving line on a terminal, a plain one every few seconds elsewhere, and a line per epoch.

The step is never waited for: sums of the losses are copied to pinned memory behind the queued steps, and read when they
have arrived (`LateLosses`). The console outlives its readers: a run is needed for what it writes to its folder, so a
`tee` or `head` that ends must not end it. What it shows is dropped then, and standard error says so once.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from yolofast.runs.layout import EPOCH, FILES, MEMORY, TRAIN_LOSS, Column, columns_of
from yolofast.terminal.escaping import SafeConsole
from yolofast.train.step import RunningLosses
from yolofast.words import clock


class LastingConsole(SafeConsole):
    def __init__(self, on_lost: Callable[[str], None]) -> None:
        """`on_lost` hears what is wrong with standard output, once."""
        super().__init__(soft_wrap=True, highlight=False)
        self._on_lost = on_lost

    def on_broken_pipe(self) -> None:
        """Rich would end the program."""
        self._continue_without("was closed")

    def _check_buffer(self) -> None:
        """Where Rich writes. A terminal that is gone and a log on a full disk are no broken pipes, and the first
        releases that we work with know none."""
        try:
            super()._check_buffer()
        except BrokenPipeError:
            self.on_broken_pipe()
        except OSError as error:
            self._continue_without(f"cannot be written ({error.strerror or error})")

    def _continue_without(self, why: str) -> None:
        self.quiet = True
        _write_to_nothing(self.file)  # also what others print, and what Python still holds when it ends
        self._on_lost(why)


def say_on_stderr(text: str) -> None:
    if sys.stderr is None:  # closed by the shell
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:  # `2>&1 | tee`: both have lost the same reader
        _write_to_nothing(sys.stderr)


def _write_to_nothing(stream: IO[str]) -> None:
    with suppress(OSError):  # one that is no file, as in a notebook
        number = stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)


_AT_THE_EDGES = 9
"""Letters of the epoch, and of the time that is left."""
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

            def say(done: int, figures: str) -> None:
                self.say(f"{title}, batch {done}/{batches}: {figures}")

            yield EpochLine(batches, losses, left, say, self._plain_every)
            return
        with Progress(*self._columns(), console=self.console, transient=True, auto_refresh=False) as progress:
            task = progress.add_task(title, total=batches, figures="")

            def show(done: int, figures: str) -> None:
                progress.update(task, completed=done, figures=figures, refresh=True)

            yield EpochLine(batches, losses, left, show, _LOOK_EVERY)

    def doing(self, what: str) -> AbstractContextManager[object]:
        """A sign of life while something else than training continues; for terminals only."""
        return self.console.status(what) if self._live else nullcontext()

    def result(self, row: Mapping[str, Any]) -> None:
        """One line for an epoch that is over, evaluated and saved; a loss of None was undone."""
        self._finished += 1
        cells = line_of(row)
        if not self._said_header:
            self._has_gpu = row[MEMORY.name] > 0
        shown = [cell for cell in cells if self._has_gpu or cell.column is not MEMORY]
        edge = _AT_THE_EDGES
        if not self._said_header:
            names = "".join(f"{cell.heading:>{cell.column.width}}" for cell in shown)
            self.say(f"{EPOCH.title:>{edge}}{names}{'left':>{edge}}")
            self._said_header = True
        left = self._seconds_left(row[EPOCH.name] + 1, self._finished)
        count = f"{int(row[EPOCH.name]) + 1}/{self._epochs}"
        values = "".join(f"{cell.text:>{cell.column.width}}" for cell in shown)
        self.say(f"{count:>{edge}}{values}{clock(left):>{edge}}")

    def _output_lost(self, why: str) -> None:
        self._is_lost = True
        results = f"{FILES.results} in its folder" if self.folder is None else self.folder / FILES.results
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


def quiet_display(epochs: int) -> Display:
    """Of ranks after the first, which show nothing."""
    return Display(epochs, Console(quiet=True))


class Cell(NamedTuple):
    """Of the line of an epoch."""

    heading: str
    text: str
    column: Column


def line_of(row: Mapping[str, Any]) -> list[Cell]:
    """What an epoch's line says between its number and the time that is left; a dash is what was not measured."""
    cells = []
    for name, column in columns_of(row):
        if column is TRAIN_LOSS:
            cells.append(Cell(column.term_in(name) or "", _loss(row.get(name)), column))
        elif column.short:
            cells.append(Cell(column.short, f"{row[name]:{column.digits}}" if name in row else "-", column))
    return cells


class EpochLine:
    """Counts batches and shows the state of the epoch every few seconds."""

    def __init__(
        self, batches: int, losses: Losses, seconds_left: Callable[[float], float],
        show: Callable[[int, str], None], show_every: float,
    ) -> None:  # fmt: skip
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
        shown = [name for name in losses if name != "total" and (name != "l1" or losses[name])]
        terms = " ".join(f"{name} {_loss(losses[name])}" for name in shown)
        speed = f"{self._images / seconds:,.0f} img/s, wait {waited / seconds:.0%}"
        taken = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
        memory = f", GPU {taken / 2**30:.1f} GiB" if taken else ""
        left = clock(self._seconds_left(self._done / self._batches))
        return f"{terms}{', ' if terms else ''}left {left}, {speed}, lr {lr:.3g}{memory}"


def _loss(value: float | None) -> str:
    """In eight letters, however far it has run away."""
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.2g}"


class LateLosses:
    """Means of the loss terms since the last reset, as of the last copy that has arrived."""

    def __init__(self, losses: RunningLosses) -> None:
        self._sums, self._count = losses.tensors()[:2]
        self._names = losses.names
        self._on_gpu = self._sums.is_cuda
        self._sums_on_host = torch.zeros(self._sums.shape, dtype=self._sums.dtype, pin_memory=self._on_gpu)
        self._count_on_host = torch.zeros((), dtype=self._count.dtype, pin_memory=self._on_gpu)
        self._copied: Any = None
        self._means: dict[str, float] = {}

    def forget(self) -> None:
        """An epoch begins: what is known belongs to the last one."""
        self._means = {}
        if self._copied is not None:
            self._copied.synchronize()  # it lies behind a step that the end of the epoch has waited for
            self._copied = None

    def look(self) -> dict[str, float]:
        """The latest that is known, empty at first; sees to it that newer ones will come."""
        if self._copied is not None and not self._copied.query():
            return self._means
        if self._copied is not None:
            self._read()
        self._sums_on_host.copy_(self._sums, non_blocking=True)
        self._count_on_host.copy_(self._count, non_blocking=True)
        if self._on_gpu:
            self._copied = torch.cuda.current_stream().record_event()
        else:
            self._read()
        return self._means

    def _read(self) -> None:
        count = max(float(self._count_on_host), 1.0)
        self._means = dict(zip(self._names, (self._sums_on_host / count).tolist(), strict=True))
