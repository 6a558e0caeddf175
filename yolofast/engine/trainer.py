"""The loop around the step: epochs, evaluation, records and checkpoints.

Everything random depends on seed, epoch and position, and the schedule on epoch and batch, so the state of a run is its
tensors and the number of the next epoch. A run killed at any moment repeats the epoch it was in, and the one before if
that was still being written, to the same numbers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from yolofast.checkpoint.save import model_content
from yolofast.engine.batch_record import BatchRecord
from yolofast.engine.checkpoints import BEST, Checkpoints
from yolofast.engine.data_wait import DataWait
from yolofast.engine.display import Display
from yolofast.engine.distributed_step import even_out, mean_losses
from yolofast.engine.evaluation import Evaluated
from yolofast.engine.gears import Gear
from yolofast.engine.guard import NanGuard
from yolofast.engine.interrupts import Interrupts
from yolofast.engine.late_losses import LateLosses
from yolofast.engine.multi_scale import as_it_is
from yolofast.engine.out_of_memory import EpochOutOfMemoryError
from yolofast.engine.profile_clock import clock_for
from yolofast.engine.profile_sampler import NoSampler, PhaseSampler
from yolofast.engine.record import Recorder
from yolofast.engine.run_pictures import RunPictures
from yolofast.engine.step import StepKind, TrainStep
from yolofast.errors import UserError
from yolofast.optim.schedule import Schedule
from yolofast.profile.phases import AUGMENT, DATA_WAIT, REST, TO_DEVICE
from yolofast.ranks import world
from yolofast.runs.layout import (
    EPOCH,
    MEMORY,
    RATES,
    SPEED,
    TIME,
    TRAIN_LOSS,
    VAL_LOSS,
    WAIT,
    losses_of,
    scores_of,
    weights_of_epoch,
)
from yolofast.structures import Batch


class BatchSource(Protocol):
    def epoch(self, number: int, start_batch: int = 0) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


@dataclass
class Progress:
    """Where a run stands, besides its tensors."""

    epoch: int = 0
    """The next one."""
    best_fitness: float = -1.0
    best_epoch: int = -1
    kept_epoch: int = -1
    """Whose weights `best.pt` has: with `--nosave` not always those of the best one."""
    lr_factor: float = 1.0
    """Below 1 after a loss that was not a number."""
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class Trainer:
    step: TrainStep
    gear: Gear
    batches: BatchSource
    schedule: Schedule
    evaluate: Callable[[int], Evaluated]
    """Of the averaged model, for the epoch that was just trained."""
    start_epoch: Callable[[int], None]
    """What has to change between epochs: which loss is used, which layers stay in evaluation mode."""
    checkpoints: Checkpoints
    recorder: Recorder
    display: Display
    epochs: int
    progress: Progress
    settings: dict[str, Any]
    """What a checkpoint says about the run besides its state: plain values."""
    terms: tuple[str, ...] = ("box", "obj", "cls")
    """Of the loss, to be written down."""
    evaluate_every_epoch: bool = True
    save_every_epoch: bool = True
    save_period: int = -1
    patience: int = 0
    phase_begins: Callable[[int], int] = lambda epoch: 0
    """With which epoch the phase of an epoch began: patience counts anew, because other parts learn."""
    max_steps: int | None = None
    lower_rate: str = "lower lr0"
    """For whoever's loss is not a number."""
    images_joined: int = 1
    """Images of the data set that make one of a batch (`--quad`); rates count those."""
    resize: Callable[[Batch, int, int], Batch] = as_it_is
    """A batch on the device as it is to be seen, by epoch and number."""
    more_state: Callable[[], dict[str, Any]] = dict
    """What a resumed run needs besides the models and the step."""
    pictures: RunPictures = field(default_factory=RunPictures)
    after_evaluation: Callable[[int], None] = lambda epoch: None
    """For those who want to look at the averaged model of an epoch."""
    batch_record: BatchRecord | None = None
    sampler: PhaseSampler = field(default_factory=NoSampler)
    """Times some of the steps by phase (`--profile-every`)."""
    best_found: Evaluated | None = None
    """The evaluation of the weights in `best.pt`, or to be written there, if this process has seen it."""

    def __post_init__(self) -> None:
        self._late_losses = LateLosses(self.step.losses)
        self._latest_found: Evaluated | None = None
        self._interrupts = Interrupts()

    def fit(self) -> Progress:
        try:
            with self._interrupts.heard():
                self._fit()
        except BaseException:
            with suppress(UserError, OSError):  # why the run ends is what its user has to know
                self.checkpoints.finish()
            raise
        self.checkpoints.finish()
        return self.progress

    def _fit(self) -> None:
        guard = NanGuard(self.step, self.progress.lr_factor, self.lower_rate)
        while self.progress.epoch < self.epochs and not self._should_stop():
            epoch = self.progress.epoch
            try:
                row = self._train_epoch(epoch, guard)
            except torch.OutOfMemoryError as error:
                guard.back_to_start()
                raise EpochOutOfMemoryError(self._content(epoch)) from error
            self._interrupts.check()  # the epoch's batches have just been let go of, with destructors of theirs
            last = epoch + 1 == self.epochs or self._out_of_steps(epoch + 1)
            if self.evaluate_every_epoch or last:
                with self.display.doing("evaluating"):
                    self._score(self.evaluate(epoch), row)
                self.after_evaluation(epoch)
            last = last or self._out_of_patience(epoch + 1)
            self.progress.epoch, self.progress.lr_factor = epoch + 1, guard.lr_factor
            self.progress.rows.append(row)
            self.recorder.epoch(row)
            if self.save_every_epoch or last:
                self._save(epoch, last)
            self.display.result(row)
            self.pictures.epoch_over()

    def _train_epoch(self, epoch: int, guard: NanGuard) -> dict[str, Any]:
        self.start_epoch(epoch)
        self.step.losses.reset()
        guard.start_epoch()
        start, images, wait = time.perf_counter(), 0, DataWait(clock_for(self.step.precision.device))
        settings = self.schedule.at(epoch, 0)
        self._late_losses.forget()
        if self.batch_record is not None:
            self.batch_record.start_epoch()
        with self.display.epoch(epoch, len(self.batches), self._late_losses.look) as line:
            source = self.batches.epoch(epoch)
            for number in range(len(self.batches)):
                iteration = epoch * len(self.batches) + number
                self.sampler.begin(iteration, DATA_WAIT)
                with wait.timed():
                    batch = next(source)
                self.sampler.mark(REST)
                settings = self.schedule.at(epoch, number)
                self.step.optimizer.set([lr * guard.lr_factor for lr in settings.lr], settings.momentum)
                updates = iteration % settings.accumulate == 0
                self.sampler.mark(TO_DEVICE)
                moved = self.step.on_device(batch)
                self.sampler.mark(AUGMENT)
                seen = self.resize(moved, epoch, number)
                self.sampler.mark(REST)
                if self.batch_record is not None:
                    self.batch_record.next_is(batch, seen, settings.lr[0] * guard.lr_factor)
                self.gear.run(seen, StepKind(settings.accumulate > 1, updates))
                used = len(batch.images) * self.images_joined * world()
                images += used
                self._tell(guard.after_batch())
                self.pictures.trained_on(epoch, number, batch)
                line.batch_done(used, wait.seconds, settings.lr[0] * guard.lr_factor)
                self.sampler.end()
                self._interrupts.check()
                if self.max_steps is not None and iteration + 1 >= self.max_steps:
                    break
        losses = mean_losses(self.step.losses)
        if self.batch_record is not None:
            self.batch_record.end_epoch(epoch)
        self.sampler.end_epoch(epoch)
        undone = guard.end_epoch()
        self._tell(undone)
        even_out(self.step)
        wall = time.perf_counter() - start
        rates = {column.name: lr * guard.lr_factor for column, lr in zip(RATES, settings.lr, strict=False)}
        return {
            EPOCH.name: epoch,
            TIME.name: (self.progress.rows[-1][TIME.name] if self.progress.rows else 0.0) + wall,
            # An epoch that was undone to its end has taught nothing: there is no loss to state.
            **losses_of(TRAIN_LOSS, {name: None if undone else losses[name] for name in self.terms}),
            **rates,
            SPEED.name: images / wall,
            WAIT.name: wait.seconds / wall,
            MEMORY.name: torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else 0.0,
        }

    def _score(self, found: Evaluated, row: dict[str, Any]) -> None:
        self._latest_found, metrics = found, found.metrics
        row.update(scores_of(metrics))
        row.update(losses_of(VAL_LOSS, found.losses))
        if metrics.fitness >= self.progress.best_fitness:  # while nothing is found yet, the latest is the best
            self.progress.best_fitness, self.progress.best_epoch = metrics.fitness, row[EPOCH.name]
            self.best_found = found

    def _save(self, epoch: int, last: bool) -> None:
        names = []
        # Before the last state, which knows which epoch was the best: a kill in between repeats the epoch.
        is_missing = last and (self.progress.kept_epoch != self.progress.best_epoch or not self.checkpoints.has(BEST))
        if self.progress.best_epoch == epoch or is_missing:
            self.progress.kept_epoch, self.best_found = epoch, self._latest_found
            names.append(BEST)
        if self.save_period > 0 and (epoch + 1) % self.save_period == 0:
            names.append(weights_of_epoch(epoch + 1))
        self.checkpoints.save(self._content(epoch), *names)

    def _content(self, epoch: int) -> dict[str, Any]:
        progress = self.progress
        return model_content(
            self.step.model,
            self.step.ema.model,
            epoch,
            step=self.step.state_dict(),
            run=self.more_state(),
            next_epoch=progress.epoch,
            best_fitness=progress.best_fitness,
            best_epoch=progress.best_epoch,
            kept_epoch=progress.kept_epoch,
            lr_factor=progress.lr_factor,
            rows=progress.rows,
            **self.settings,
        )

    def _should_stop(self) -> bool:
        if self._out_of_patience(self.progress.epoch):
            waited = self._waited(self.progress.epoch)
            self.display.say(f"no better result for {waited} epoch{'s' * (waited > 1)}: stopping")
            return True
        return self._out_of_steps(self.progress.epoch)

    def _out_of_patience(self, epochs: int) -> bool:
        """Whether `--patience` allows no more than so many epochs."""
        return self.patience > 0 and self.progress.best_epoch >= 0 and self._waited(epochs) >= self.patience

    def _waited(self, epochs: int) -> int:
        """For how many epochs nothing got better in the phase that goes on."""
        return epochs - 1 - max(self.progress.best_epoch, self.phase_begins(epochs) - 1)

    def _out_of_steps(self, epochs: int) -> bool:
        """Whether `--max-steps` allows no more than so many epochs."""
        return self.max_steps is not None and epochs * len(self.batches) >= self.max_steps

    def _tell(self, message: str | None) -> None:
        if message:
            self.display.say(message)
