"""YOLOv7, 1B4H included: trained by hyper-parameters (`--hyp`); its assigner may change during a run."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from yolofast.augment.recipe import Recipe
from yolofast.config.hyp import changed_hyp, ingredients_of, source_of
from yolofast.config.train import TrainConfig
from yolofast.config.yolox_recipe import read_yolox_recipe
from yolofast.detect.networks import with_whole_strides
from yolofast.errors import UserError
from yolofast.model.contract import Network
from yolofast.model.graph import GRAPH
from yolofast.optim.optimizer import RAMP, YOLOV7_DECAY, ModelEma
from yolofast.optim.schedule import NOMINAL_BATCH, YoloV7Schedule, auto_lr, scaled_decay
from yolofast.train.families.family import Augmentation, Explained, Family, Resize, Rules, Shape
from yolofast.train.families.multi_scale import GrowingScale, MultiScale, yolov7_range
from yolofast.train.losses.loss_schedule import AssignerSchedule, ScheduledLoss


def warm_up_starts(hyp: Mapping[str, Any], optimizer: str, faithful: bool) -> tuple[float, float]:
    """Momentum (Adam's β1) and the biases' learning rate at the first iteration.

    A published run with Adam has β1 from the start, because torch's Adam knows no `momentum` that could be warmed up,
    and warms biases up from `warmup_bias_lr`: by 0.1 they would move in every step.
    """
    if optimizer == "sgd":
        return hyp["warmup_momentum"], hyp["warmup_bias_lr"]
    return (hyp["momentum"], hyp["warmup_bias_lr"]) if faithful else (hyp["warmup_momentum"], 0.0)


_LARGEST_SCALE = 1.5
_ADAM_LR = 0.005
"""From which on a learning rate was meant for SGD."""


class YoloV7Family(Family):
    name = GRAPH

    def complete(self, config: TrainConfig, given: Collection[str]) -> TrainConfig:
        if config.recipe and config.style != "yolox":
            what = f"--recipe {config.recipe} is for YOLOX, but the network is not one"
            fix = "give YOLOv7's values with --hyp, or --style yolox to augment as the recipe says"
            raise UserError(what, fix=fix)
        if not config.sets_recipe:
            changed_hyp(config.recipe_values)
        _refuse_yoloxwarmcos(config.lr_schedule)
        return config

    def fitted(self, config: TrainConfig, model: Network, say: Callable[[str], None]) -> TrainConfig:
        return with_whole_strides(config, max(model.layout.strides), say)

    def rules(self, config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> "YoloV7Rules":
        return YoloV7Rules(config, hyp, model)


class YoloV7Rules(Rules):
    average_decay: float
    closing_flag = "--close-mosaic N"

    def __init__(self, config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> None:
        self.config, self.hyp, self._model = config, dict(hyp), model
        self.iou = 0.6 if config.faithful else 0.65
        self.ingredients = ingredients_of(self.hyp)
        if config.rect or config.image_weights:
            self.ingredients.check_beside(rect=config.rect)
        self.average_decay = self.hyp.get("ema_decay", YOLOV7_DECAY)
        self.average_ramp = self.ingredients.ema_ramp or RAMP
        if config.multi_scale and self.ingredients.sizes:
            raise UserError("sizes and --multi-scale both change the size of images", fix="drop one of them")

    @property
    def weight_decay(self) -> float:
        """It grows with the batch."""
        return scaled_decay(self.hyp["weight_decay"], self.config.batch_size, self._nominal_batch)

    @property
    def augmentation(self) -> Augmentation:
        """`--style yolox` augments as YOLOX would."""
        config, recipe, size = self.config, Recipe.from_hyp(self.hyp), self.config.train_size
        if config.style == "yolox":
            borrowed = read_yolox_recipe(config.recipe or "yolox-s", config.recipe_values)
            recipe = Recipe.yolox(**borrowed.augmentation())
        close = config.epochs - config.close_mosaic if config.close_mosaic else None
        strengths = self.by_epoch(self.ingredients.strength)
        return Augmentation(recipe=recipe, height=size, width=size, close_mosaic_from=close, strengths=strengths)

    @property
    def evaluation_shape(self) -> Shape:
        return self.config.test_size, self.config.test_size

    @property
    def size_range(self) -> tuple[Shape, Shape, str] | None:
        if not self.config.multi_scale:
            return None
        least, greatest = yolov7_range(self.config.train_size, self._stride)
        return (least, least), (greatest, greatest), "every batch"

    @property
    def largest_input(self) -> Shape:
        config = self.config
        side = config.train_size * (2 if config.quad else 1) * (_LARGEST_SCALE if config.multi_scale else 1)
        whole = int(-(-side // self._stride) * self._stride)
        return whole, whole

    def losses(self) -> ScheduledLoss:
        size, faithful, quad = self.config.train_size, self.config.faithful, self.config.quad
        return ScheduledLoss(self._model, self.hyp, size, self._assigners, faithful, quad=quad)

    def loss_name(self, epoch: int) -> str:
        return self._assigners.at(epoch)

    def schedule(self, batches: int) -> YoloV7Schedule:
        config, hyp = self.config, self.hyp
        lr, warmup = hyp["lr0"], hyp["warmup_epochs"]
        if config.auto_lr:
            lr, warmup = auto_lr(lr, warmup, config.batch_size)
        first_momentum, first_bias_lr = warm_up_starts(hyp, config.optimizer, config.faithful)
        shape = {"auto": "cosine"}.get(config.lr_schedule, config.lr_schedule)
        _refuse_yoloxwarmcos(shape)
        return YoloV7Schedule(
            epochs=config.epochs,
            batches=batches,
            batch_size=config.batch_size,
            lr=lr,
            final_share=hyp["lrf"],
            momentum=hyp["momentum"],
            warmup_epochs=warmup,
            warmup_momentum=first_momentum,
            warmup_bias_lr=first_bias_lr,
            shape=shape,  # type: ignore[arg-type]
            # A warm-up of 1,000 iterations, whatever the run's length, leaves short runs no time to learn.
            nominal_batch=self._nominal_batch,
            least_warmup=1000 if config.faithful else min(1000, config.epochs * batches // 5),
            warmup_iterations=self.ingredients.warmup_iterations,
            update_batches=self.by_epoch(self.ingredients.update_batches),
        )

    def average(self) -> ModelEma:
        last = self.ingredients.average_last
        mean_from = None if last is None else self.ingredients.averages_from(self.config.epochs)
        return ModelEma(self._model, self.average_decay, self.average_ramp, mean_from)

    def resize(self, batches: int) -> Resize | None:
        as_input, sizes = self._model.inputs.as_input, self.ingredients.sizes
        if sizes is not None:
            return GrowingScale(self.by_epoch(sizes), self._stride, as_input)
        if not self.config.multi_scale:
            return None
        return MultiScale(
            size=self.config.train_size, stride=self._stride, seed=self.config.seed, as_input=as_input
        )  # fmt: skip

    @property
    def lower_rate(self) -> str:
        return f"lower lr0, which is {self.hyp['lr0']:g} {source_of('lr0', self.config, self.config.hyp)}"

    def remarks(self, run: Explained) -> Iterator[str]:
        schedule = run.schedule.base
        assert isinstance(schedule, YoloV7Schedule)
        yield from _of_warmup(run, schedule)
        yield from _of_update(run, schedule)
        written = run.hyp["weight_decay"]
        if not math.isclose(run.weight_decay, written):
            yield f"weight decay: {written:g} runs as {run.weight_decay:g}, scaled by images per update / nominal batch"
        rate = run.plan.phases[-1].paces[0].rate
        last, floor = max(lr.last for lr in run.rows[-1].lr.values()), rate * schedule.lr * schedule.final_share
        if schedule.shape not in ("linear", "one_cycle") and last > 1.05 * floor:
            planned = "" if rate == 1 else f" × {rate:g} of the plan"
            yield f"learning rate: lr0 × lrf{planned} = {floor:.3g} is never reached, the last epoch has {last:.3g}"
        if run.config.optimizer != "sgd" and schedule.lr >= _ADAM_LR:
            yield f"learning rate: {schedule.lr:g} is made for SGD; {run.config.optimizer} wants about a tenth of it"

    @property
    def _stride(self) -> int:
        return max(self._model.layout.strides)

    @property
    def _nominal_batch(self) -> int:
        return int(self.hyp.get("nbs", NOMINAL_BATCH))

    @property
    def _assigners(self) -> AssignerSchedule:
        return AssignerSchedule.from_hyp(self.hyp, self.config.ota_from_epoch)


def _refuse_yoloxwarmcos(shape: str) -> None:
    if shape == "yoloxwarmcos":
        raise UserError("yoloxwarmcos is YOLOX's schedule", fix="use --cos-lr, --linear-lr or --one-cycle")


def _of_warmup(run: Explained, schedule: YoloV7Schedule) -> Iterator[str]:
    given, runs, total = round(schedule.warmup_epochs * run.batches), schedule.warmup, run.config.epochs * run.batches
    if runs > given > 0 and schedule.warmup_iterations is None:
        why = "at least 1,000, as published" if schedule.least_warmup >= 1000 else "at least a fifth of a short run"
        length = f"{runs:,} iterations ({runs / run.batches:.1f} epochs)"
        yield f"warm-up: {length} instead of {given:,} ({schedule.warmup_epochs:g} epochs): {why}"
    if runs >= total:
        reached = max(schedule.at(epoch, run.batches - 1).lr[0] for epoch in range(run.config.epochs)) / schedule.lr
        yield f"warm-up: {runs:,} of {total:,} iterations; the learning rate never gets beyond {reached:.0%} of lr0"
    if runs and schedule.warmup_bias_lr > schedule.lr:
        yield f"warm-up: biases start at {schedule.warmup_bias_lr:g} and come down to {schedule.lr:g}"


def _of_update(run: Explained, schedule: YoloV7Schedule) -> Iterator[str]:
    size, nominal = schedule.batch_size, schedule.nominal_batch
    accumulate = max(round(nominal / size), 1)
    if accumulate > 1 and size * accumulate != nominal:
        yield f"update: {accumulate} batches of {size} make {size * accumulate} images, not the nominal {nominal}"
    if size > nominal:
        scaled = "--auto-lr has scaled it" if run.config.auto_lr else "it is not scaled with the batch (--auto-lr does)"
        yield f"update: {size} images, more than the nominal {nominal}; learning rate {schedule.lr:.4g}: {scaled}"


TRAINING = YoloV7Family()
