"""The loop around the step of a motion model: epochs, validation, records and checkpoints.

The state of a run is its tensors and the number of the next epoch: order, augmentation and rate are functions of that.
So a run killed at any moment repeats the epoch it was in, on a CPU to the same bits.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import torch

from yolofast.checkpoint.save import model_content
from yolofast.config.motion import MotionTrainConfig
from yolofast.config.resumed import plain_values
from yolofast.errors import UserError
from yolofast.interrupts import Interrupts
from yolofast.motion.trackssm import TrackSSM, loss_of
from yolofast.motion.training.horizons import Questions, mean_overlaps
from yolofast.motion.training.samples import Samples, TrackAugmentation
from yolofast.motion.training.step import MotionStep
from yolofast.motion.weights import stated
from yolofast.runs import layout
from yolofast.train.checkpoints import Checkpoints
from yolofast.train.display import Display
from yolofast.train.gears.gears import Pace
from yolofast.train.loop import Progress
from yolofast.train.record import Recorder

_AT_ONCE = 2048


@dataclass(frozen=True)
class MotionValidation:
    samples: Samples
    asked: Questions
    most: int

    @torch.no_grad()
    def losses(self, model: TrackSSM, giou: bool) -> dict[str, float]:
        """Means over evenly spread samples."""
        every = max(1, len(self.samples) // self.most)
        places = self.samples.places[::every]
        sums: dict[str, float] = {}
        for part in torch.split(places, _AT_ONCE):
            rows, truth = self.samples.cut(part, TrackAugmentation())
            terms = loss_of(model(rows), rows[:, -1, :4], truth, giou)
            sums = {name: sums.get(name, 0.0) + float(value) * len(part) for name, value in terms.items()}
        return {name: total / len(places) for name, total in sums.items()}


def progress_of(state: dict[str, Any] | None) -> Progress:
    """Of a run that begins, or as its checkpoint has it."""
    if state is None:
        return Progress()
    return Progress(epoch=state["next_epoch"], **{name: state[name] for name in ("best_fitness", "best_epoch", "rows")})


def rate_at(config: MotionTrainConfig, epoch: int) -> float:
    """As published it is constant; otherwise half a cosine down to `lrf`."""
    if config.faithful:
        return config.lr
    share = (1 + math.cos(math.pi * epoch / max(config.epochs - 1, 1))) / 2
    return config.lr * (config.lrf + (1 - config.lrf) * share)


@dataclass(kw_only=True)
class MotionTrainer:
    config: MotionTrainConfig
    step: MotionStep
    validation: MotionValidation
    checkpoints: Checkpoints
    recorder: Recorder
    display: Display
    progress: Progress

    def fit(self) -> None:
        interrupts, progress = Interrupts(), self.progress
        with self.checkpoints, interrupts.heard():
            while progress.epoch < self.config.epochs and not self._out_of_patience():
                row = self._train_epoch(progress.epoch, interrupts)
                with self.display.doing("validating"):
                    self._validate(row)
                progress.epoch += 1
                progress.rows.append(row)
                self.recorder.epoch(row)
                self._save(progress.epoch - 1)
                self.display.result(row)

    def _train_epoch(self, epoch: int, interrupts: Interrupts) -> dict[str, Any]:
        step, batch, lr = self.step, self.config.batch_size, rate_at(self.config, epoch)
        total, start = len(step.samples), time.perf_counter()
        pace = Pace(step.device)
        step.start_epoch(epoch, lr)
        with self.display.epoch(epoch, -(-total // batch)) as line:
            for done in range(0, total, batch):
                count = min(batch, total - done)
                step.run(count)
                pace.step_queued()
                line.batch_done(count, 0.0, lr)
                interrupts.check()
        losses = step.losses()
        wall = time.perf_counter() - start
        if not all(map(math.isfinite, losses.values())):
            raise self._diverged(f"the loss of epoch {epoch + 1} is not a number")
        rows = self.progress.rows
        return {
            layout.EPOCH.name: epoch,
            layout.TIME.name: (rows[-1][layout.TIME.name] if rows else 0.0) + wall,
            **layout.losses_of(layout.TRAIN_LOSS, losses),
            layout.RATES[0].name: lr,
            layout.SPEED.name: total / wall,
            layout.WAIT.name: 0.0,
            layout.MEMORY.name: torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else 0.0,
        }

    def _validate(self, row: dict[str, Any]) -> None:
        model, progress = self.step.model, self.progress
        overlaps = mean_overlaps(model, self.validation.asked, layout.MOTION_HORIZONS)
        row.update(zip((one.name for one in layout.MOTION_METRICS), overlaps, strict=True))
        row.update(layout.losses_of(layout.VAL_LOSS, self.validation.losses(model, self.config.giou)))
        known = [one for one in overlaps if math.isfinite(one)]
        if not known:  # its last step was one too many
            raise self._diverged(f"after epoch {row[layout.EPOCH.name] + 1} the weights are not numbers")
        fitness = sum(known) / len(known)
        if fitness >= progress.best_fitness:
            progress.best_fitness, progress.best_epoch = fitness, row[layout.EPOCH.name]

    def _diverged(self, what: str) -> UserError:
        kept = "; the state before this epoch is saved" if self.progress.rows else ""
        fix = f"lower --lr (it was {self.config.lr:g}){kept}"
        return UserError(what, where=self.recorder.folder, fix=fix)

    def _save(self, epoch: int) -> None:
        names = [layout.FILES.best] if self.progress.best_epoch == epoch else []
        if self.config.save_period > 0 and (epoch + 1) % self.config.save_period == 0:
            names.append(layout.weights_of_epoch(epoch + 1))
        progress, model = self.progress, self.step.model
        content = model_content(
            model, None, epoch, motion=stated(model.shape), step=self.step.state_dict(), next_epoch=progress.epoch,
            best_fitness=progress.best_fitness, best_epoch=progress.best_epoch, rows=progress.rows,
            config=plain_values(self.config), samples=len(self.step.samples),
        )  # fmt: skip
        self.checkpoints.save(content, *names)

    def _out_of_patience(self) -> bool:
        patience, progress = self.config.patience, self.progress
        if not patience or progress.best_epoch < 0 or progress.epoch - 1 - progress.best_epoch < patience:
            return False
        self.display.say(f"no better epoch for {patience}: stopping")
        return True
