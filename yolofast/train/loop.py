"""The loop around the step: epochs, evaluation, records and checkpoints.

Everything random depends on seed, epoch and position, and the schedule on epoch and batch. So the state of a run is
its tensors and the number of the next epoch. A run killed at any moment repeats the epoch it was in, and the one before
if that was still being written. On a CPU the bits are the same.
"""

import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.config.resumed import saved_config
from yolofast.detect.accumulator import Evaluated
from yolofast.interrupts import Interrupts
from yolofast.model.network import Network
from yolofast.optim.schedule import StepSettings
from yolofast.precision import memory_ran_out
from yolofast.profile.step_phases import AUGMENT, DATA_WAIT, REST, TO_DEVICE
from yolofast.ranks import wait_for_all
from yolofast.runs import layout
from yolofast.structures import Batch
from yolofast.train.batch_record import BatchRecord
from yolofast.train.checkpoints import Checkpoints, on_host
from yolofast.train.display import Display, LateLosses
from yolofast.train.distributed.averaged_step import even_out, mean_losses
from yolofast.train.distributed.join import call_off, is_called_off
from yolofast.train.gears.compiling import compile_request
from yolofast.train.gears.gear_box import GearBox, choose_gear, gear_of_ranks
from yolofast.train.gears.gears import Gear
from yolofast.train.guard import Course, EpochOutOfMemoryError, NanGuard, divergence_warning
from yolofast.train.record import Recorder
from yolofast.train.run import Run
from yolofast.train.run_pictures import RunPictures
from yolofast.train.step import StepKind
from yolofast.train.timing import DataWait, NoSampler, PhaseSampler, clock_for


@dataclass
class Progress:
    """Where a run stands, besides its tensors."""

    epoch: int = 0
    """The next one."""
    best_fitness: float = -1.0
    best_epoch: int = -1
    saved_epoch: int = -1
    """Whose weights `best.pt` has: with `--nosave` not always those of the best one."""
    lr_factor: float = 1.0
    """Below 1 after a loss that was NaN or infinite."""
    rows: list[dict[str, Any]] = field(default_factory=list)


TurnRecord = Callable[[Batch, Batch, float], None]
"""Gets a batch as it was made, as the network will get it, and the learning rate."""


class Turn(NamedTuple):
    batch: Batch
    """As it was made."""
    settings: StepSettings
    kind: StepKind


def turn(
    run: Run, fetch: Callable[[], tuple[int, Batch]], gear: Gear, sampler: PhaseSampler, record: TurnRecord | None,
    *, epoch: int, iteration: int, lr_factor: float = 1.0,
) -> Turn:  # fmt: skip
    """One turn of training: a batch is fetched, with its number in the epoch, and learnt from.

    Whoever profiles a run makes its turns with this function, too. What the caller does afterwards is still timed by
    the sampler, until it says `end`.
    """
    sampler.begin(iteration, DATA_WAIT)
    if run.makes_batches_here:
        sampler.mark(AUGMENT)
    number, batch = fetch()
    sampler.mark(REST)
    settings = run.schedule.at(epoch, number)
    rates = [lr * lr_factor for lr in settings.lr]
    run.step.optimizer.set(rates, settings.momentum)
    updates = settings.updates(iteration, number, len(run.batches))
    kind = StepKind(settings.accumulate > 1, updates, settings.averaged)
    sampler.mark(TO_DEVICE)
    moved = run.step.on_device(batch)
    sampler.mark(AUGMENT)
    resized = moved if run.resize is None else run.resize(moved, epoch, number)
    sampler.mark(REST)
    if record is not None:
        record(batch, resized, rates[0])
    gear.run(resized, kind)
    return Turn(batch, settings, kind)


def gear_of(run: Run, steps: int, say: Callable[[str], None], at_once: Batch | None = None) -> GearBox:
    """For so many steps; `at_once` as in `choose_gear`."""
    requested, device = compile_request(run.config.gear).gear, run.step.precision.device
    gear = gear_of_ranks(requested, device, say, sync_bn=run.config.sync_bn)
    return choose_gear(gear, run.step, run.images_per_step, steps, say, one_shape=run.one_shape, at_once=at_once)


@dataclass(kw_only=True)
class Trainer:
    run: Run
    gear: Gear
    checkpoints: Checkpoints | None
    """None: another rank saves."""
    recorder: Recorder
    display: Display
    progress: Progress
    pictures: RunPictures = field(default_factory=RunPictures)
    batch_record: BatchRecord | None = None
    sampler: PhaseSampler = field(default_factory=NoSampler)
    """Times some of the steps by phase (`--profile-every`)."""
    course: Course = field(default_factory=Course)
    meanwhile: Callable[[], object] = lambda: None
    """Begins after the first epoch what the end of the run needs, while the device is busy."""
    best_found: Evaluated | None = None
    """The evaluation of the weights in `best.pt`, or to be written there, if this process has made it."""

    def __post_init__(self) -> None:
        self._step, self._config = self.run.step, self.run.config
        self._late_losses = LateLosses(self._step.losses)
        self._latest_found: Evaluated | None = None
        self._interrupts = Interrupts()
        self._saved_settings: dict[str, Any] = {  # once: the files they name may go
            "config": saved_config(self._config),
            "hyp": self.run.hyp,
            "img_shape": list(self.run.rules.evaluation_shape),
            "images": len(self.run.data.train),
        }

    def fit(self) -> Progress:
        with self.checkpoints or nullcontext(), self._interrupts.heard():
            self.run.pixels.start()
            self._fit()
        return self.progress

    def _fit(self) -> None:
        if self._config.save_init and self.checkpoints is not None and self.progress.epoch == 0:
            start = on_host(model_content(self._step.model, **self._saved_settings))
            save_checkpoint(self.checkpoints.folder / layout.FILES.init, start)
        if self.checkpoints is not None and not self._config.nosave:
            self.checkpoints.check_room(self._step.tensors())
        guard = NanGuard(self._step, self.progress.lr_factor, self.run.rules.lower_rate)
        course, config = self.course, self._config
        first, stopped = self.progress.epoch, course.pauses(config, self.progress.epoch)
        while self.progress.epoch < config.epochs and not stopped and not self._should_stop():
            epoch = self.progress.epoch
            course.epoch_begins()
            try:
                row = self._train_epoch(epoch, guard)
            except (RuntimeError, MemoryError) as error:
                if memory_ran_out(error):
                    self._tell_others()
                elif not (config.reduce_batch and is_called_off()):
                    raise
                traceback.clear_frames(error.__traceback__)  # they hold all that the step had computed
                guard.back_to_start()
                # Who stops has no use for a copy, for which there may be no room either.
                raise EpochOutOfMemoryError(self._content(epoch) if self._config.reduce_batch else {}) from error
            self._interrupts.check()  # the epoch's batches have just been let go of, with destructors of theirs
            last = epoch + 1 == self._config.epochs or self._out_of_steps(epoch + 1)
            if last:
                self.pictures.end_is_near()
                self.run.settle(epoch)
            if not self._config.notest or last:
                with self.display.doing("evaluating"):
                    self._score(self.run.evaluate(epoch), row)
                self._show_boxes(epoch)
            last = last or self._out_of_patience(epoch + 1)
            self.progress.epoch, self.progress.lr_factor = epoch + 1, guard.lr_factor
            self.progress.rows.append(row)
            if epoch == first:
                self.meanwhile()
            self.recorder.epoch(row)
            stopped = course.stops(row)
            course.epoch_ends()
            pauses = not last and not stopped and course.pauses(config, epoch + 1)
            if not config.nosave or last or stopped or pauses:
                self._save(epoch, last or stopped)
            stopped = stopped or pauses
            self.display.result(row)
            self._say(divergence_warning(self.progress.rows, self._config.epochs, self.run.rules.lower_rate))
            self.pictures.epoch_over()

    def _train_epoch(self, epoch: int, guard: NanGuard) -> dict[str, Any]:
        start = time.perf_counter()
        self.run.start_epoch(epoch)
        if self._config.reduce_batch:
            wait_for_all()  # so that an epoch which one rank calls off is the one that all are in
        self._step.losses.reset()
        guard.start_epoch()
        images, wait = 0, DataWait(clock_for(self._step.precision.device))
        settings, batches = self.run.schedule.at(epoch, 0), len(self.run.batches)
        self._late_losses.forget()
        record = None
        if self.batch_record is not None:
            self.batch_record.start_epoch()
            record = self.batch_record.next_is
        with self.display.epoch(epoch, batches, self._late_losses.look) as line:
            source = enumerate(self.run.batches.epoch(epoch))

            def fetch() -> tuple[int, Batch]:
                with wait.timed():
                    return next(source)

            for iteration in range(epoch * batches, (epoch + 1) * batches):
                batch, settings, _ = turn(
                    self.run, fetch, self.gear, self.sampler, record,
                    epoch=epoch, iteration=iteration, lr_factor=guard.lr_factor,
                )  # fmt: skip
                used = self.run.images_used(batch)
                images += used
                self._say(guard.after_batch())
                self.pictures.trained_on(epoch, iteration % batches, batch)
                line.batch_done(used, wait.seconds, settings.lr[0] * guard.lr_factor)
                self.sampler.end()
                self._interrupts.check()
                self.run.mend_pixels(self.display.say)
                if self._config.max_steps is not None and iteration + 1 >= self._config.max_steps:
                    break
        means = mean_losses(self._step.losses)
        if self.batch_record is not None:
            self.batch_record.end_epoch(epoch)
        self.sampler.end_epoch(epoch)
        undone = guard.end_epoch()
        self._say(undone)
        even_out(self._step)
        wall = time.perf_counter() - start
        return {
            layout.EPOCH.name: epoch,
            layout.TIME.name: (self.progress.rows[-1][layout.TIME.name] if self.progress.rows else 0.0) + wall,
            # An epoch that was undone to its end has taught nothing: there is no loss to state.
            **layout.losses_of(layout.TRAIN_LOSS, {term: None if undone else means[term] for term in self._step.terms}),
            **{column.name: lr * guard.lr_factor for column, lr in zip(layout.RATES, settings.lr, strict=False)},
            layout.SPEED.name: images / wall,
            layout.WAIT.name: wait.seconds / wall,
            layout.MEMORY.name: torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else 0.0,
        }

    def _tell_others(self) -> None:
        """They wait for this rank's part of a sum."""
        if self._config.reduce_batch:
            call_off()

    def _score(self, found: Evaluated, row: dict[str, Any]) -> None:
        self._latest_found, metrics = found, found.metrics
        row.update(layout.scores_of(metrics))
        row.update(layout.losses_of(layout.VAL_LOSS, found.losses))
        if metrics.fitness >= self.progress.best_fitness:  # while nothing is found yet, the latest is the best
            self.progress.best_fitness, self.progress.best_epoch = metrics.fitness, row[layout.EPOCH.name]
            self.best_found = found

    def _show_boxes(self, epoch: int) -> None:
        """Those the averaged model predicts, every N-th epoch; never if the interval is -1."""
        interval, average, evaluation = self._config.bbox_interval, self._step.ema.model, self.run.evaluation
        if interval > 0 and (epoch + 1) % interval == 0 and isinstance(average, Network):
            path = self.pictures.boxes_after(epoch, average, self._step.precision, evaluation.batches, evaluation.index)
            if path is not None:
                self.recorder.picture(epoch, path)

    def _save(self, epoch: int, last: bool) -> None:
        if self.checkpoints is None:
            return
        names = []
        # Before the last state, which knows which epoch was the best: a kill in between repeats the epoch.
        progress, best = self.progress, layout.FILES.best
        is_missing = last and (progress.saved_epoch != progress.best_epoch or not self.checkpoints.has(best))
        if progress.best_epoch == epoch or is_missing:
            progress.saved_epoch, self.best_found = epoch, self._latest_found
            names.append(best)
        if self._config.save_period > 0 and (epoch + 1) % self._config.save_period == 0:
            names.append(layout.weights_of_epoch(epoch + 1))
        self.checkpoints.save(self._content(epoch), *names)

    def _content(self, epoch: int) -> dict[str, Any]:
        progress = self.progress
        return model_content(
            self._step.model,
            self._step.ema.model,
            epoch,
            step=self._step.state_dict(),
            run=self.run.state_dict(),
            next_epoch=progress.epoch,
            best_fitness=progress.best_fitness,
            best_epoch=progress.best_epoch,
            kept_epoch=progress.saved_epoch,
            lr_factor=progress.lr_factor,
            rows=progress.rows,
            **self._saved_settings,
        )

    def _should_stop(self) -> bool:
        if self._out_of_patience(self.progress.epoch):
            waited = self._waited(self.progress.epoch)
            self.display.say(f"no better result for {waited} epoch{'s' * (waited > 1)}: stopping")
            return True
        if self._out_of_steps(self.progress.epoch):
            self.display.say(f"--max-steps {self._config.max_steps} is reached: stopping")
            return True
        return False

    def _out_of_patience(self, epochs: int) -> bool:
        """Whether `--patience` allows no more than so many epochs."""
        patience = self._config.patience
        return patience > 0 and self.progress.best_epoch >= 0 and self._waited(epochs) >= patience

    def _waited(self, epochs: int) -> int:
        """For how many epochs nothing got better in the present phase, in which other parts learn."""
        return epochs - 1 - max(self.progress.best_epoch, self.run.phases.plan.at(epochs).first - 1)

    def _out_of_steps(self, epochs: int) -> bool:
        """Whether `--max-steps` allows no more than so many epochs."""
        most = self._config.max_steps
        return most is not None and epochs * len(self.run.batches) >= most

    def _say(self, message: str | None) -> None:
        if message:
            self.display.say(message)
