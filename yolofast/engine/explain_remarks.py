"""Where what people believe of a run and what runs differ: one sentence for each, with the numbers of this run."""

import math
from collections.abc import Iterator

from yolofast.config.yolox_recipe import YoloXRecipe, read_yolox_recipe
from yolofast.engine.explanation import Explanation, Past
from yolofast.engine.plan import frozen_at_random
from yolofast.engine.recipe_network import other_network
from yolofast.optim.ema import YOLOV7_DECAY
from yolofast.optim.schedule import YoloV7Schedule

_RAMP = 2000
_RAMPED = 3 * _RAMP
"""Updates after which the average's decay is within 5 % of what is asked for."""
_FULL_SPEED = 0.5
"""Of the highest learning rate: from there on thawing without a warm-up is worth a word."""
_FEW_UPDATES = 100
_ADAM_LR = 0.005
_FINE = 0.2
"""Of the learning rate for training from scratch: below it a recipe is one for fine-tuning."""
_FROM_SCRATCH = 0.5
"""Of the same: from here on a recipe is one for training from scratch."""


def remarks(run: Explanation) -> list[str]:
    if run.past is not None:  # what was to be said of the beginning was said then
        return [*_of_going_on(run, run.past), *_of_augmentation(run), *_of_plan(run)]
    own = _of_yolox(run, run.recipe) if run.recipe is not None else _of_yolov7(run)
    return [*own, *_of_augmentation(run), *_of_average(run), *_of_plan(run), *_of_length(run)]


def _of_going_on(run: Explanation, past: Past) -> Iterator[str]:
    first = run.rows[0]
    if past.planned != run.config.epochs:
        starts = max(lr.first for lr in first.lr.values())
        yield (
            f"schedule: what ran so far followed that of {past.planned} epochs, what comes that of "
            f"{run.config.epochs}; the learning rate was {past.lr:.3g} at the end of epoch {past.epochs} and is "
            f"{starts:.3g} at the start of epoch {first.epoch + 1}"
        )
    if run.mosaic_closed_before and first.chances["mosaic"]:
        yield f"mosaic: it was closed, and comes back with epoch {first.epoch + 1}"
    if past.lr_factor != 1:
        yield f"learning rate: {past.lr_factor:g} of the schedule's, since a loss was not a number"


def _of_yolov7(run: Explanation) -> Iterator[str]:
    schedule = run.schedule.base
    assert isinstance(schedule, YoloV7Schedule)
    yield from _of_warmup(run, schedule)
    yield from _of_update(run, schedule)
    written = run.hyp["weight_decay"]
    if not math.isclose(run.weight_decay, written):
        yield f"weight decay: {written:g} runs as {run.weight_decay:g}, scaled by images per update / nominal batch"
    rate = run.plan.phases[-1].paces[0].rate
    last, floor = max(lr.last for lr in run.rows[-1].lr.values()), rate * schedule.lr * schedule.final_share
    if schedule.shape != "linear" and last > 1.05 * floor:
        planned = "" if rate == 1 else f" × {rate:g} of the plan"
        yield f"learning rate: lr0 × lrf{planned} = {floor:.3g} is never reached, the last epoch has {last:.3g}"
    if run.config.optimizer != "sgd" and schedule.lr >= _ADAM_LR:
        yield f"learning rate: {schedule.lr:g} is made for SGD; {run.config.optimizer} wants about a tenth of it"


def _of_warmup(run: Explanation, schedule: YoloV7Schedule) -> Iterator[str]:
    asked, runs, total = round(schedule.warmup_epochs * run.batches), schedule.warmup, run.config.epochs * run.batches
    if runs > asked > 0:
        why = "at least 1,000, as published" if schedule.least_warmup >= 1000 else "at least a fifth of a short run"
        length = f"{runs:,} iterations ({runs / run.batches:.1f} epochs)"
        yield f"warm-up: {length} instead of {asked:,} ({schedule.warmup_epochs:g} epochs): {why}"
    if runs >= total:
        reached = max(schedule.at(epoch, run.batches - 1).lr[0] for epoch in range(run.config.epochs)) / schedule.lr
        yield f"warm-up: {runs:,} of {total:,} iterations; the learning rate never gets beyond {reached:.0%} of lr0"
    if runs and schedule.warmup_bias_lr > schedule.lr:
        yield f"warm-up: biases start at {schedule.warmup_bias_lr:g} and come down to {schedule.lr:g}"


def _of_update(run: Explanation, schedule: YoloV7Schedule) -> Iterator[str]:
    size, nominal = schedule.batch_size, schedule.nominal_batch
    accumulate = max(round(nominal / size), 1)
    if accumulate > 1 and size * accumulate != nominal:
        yield f"update: {accumulate} batches of {size} make {size * accumulate} images, not the nominal {nominal}"
    if size > nominal:
        scaled = "--auto-lr has scaled it" if run.config.auto_lr else "it is not scaled with the batch (--auto-lr does)"
        yield f"update: {size} images, more than the nominal {nominal}; learning rate {schedule.lr:.4g}: {scaled}"


def _of_yolox(run: Explanation, recipe: YoloXRecipe) -> Iterator[str]:
    size = run.config.batch_size
    if word := other_network(run.config, run.model):
        yield f"recipe: {word}"
    yield f"learning rate: {recipe.lr(size):.4g} = basic_lr_per_img {recipe.basic_lr_per_img:.4g} × batch {size}"
    if run.is_mostly_new and recipe.basic_lr_per_img <= _FINE * YoloXRecipe().basic_lr_per_img:
        share = YoloXRecipe().basic_lr_per_img / recipe.basic_lr_per_img
        lacking = "most of the network is not in them" if run.config.weights else "none are given"
        yield (
            f"weights: {lacking}; training begins with random values, at 1/{share:.3g} of the learning rate that "
            f"is published for that: give {'those of this network' if run.config.weights else '--weights'}"
        )
    if not run.is_mostly_new and recipe.basic_lr_per_img >= _FROM_SCRATCH * YoloXRecipe().basic_lr_per_img:
        yield (
            "weights: they learn on at the learning rate that is published for random values; the packaged recipes for "
            f"fine-tuning have a tenth of it or less (--set basic_lr_per_img={recipe.basic_lr_per_img / 10:.3g})"
        )
    written = read_yolox_recipe(run.config.recipe, run.config.recipe_values) if run.config.recipe else recipe
    own = run.plan.phases[0].warmup_epochs
    if own is not None and own != written.warmup_epochs:
        yield f"recipe: warmup_epochs {written.warmup_epochs} runs as {own:g}, which the plan says"
    for name in ("warmup_epochs", "no_aug_epochs") if own is None else ("no_aug_epochs",):
        asked, runs = getattr(written, name), getattr(recipe, name)
        if asked != runs:
            yield f"recipe: {name} {asked} runs as {runs}: the run is shorter than the recipe's {written.epochs} epochs"
    yield from _of_long_warmup(run, recipe)
    plain, floor = recipe.no_aug_epochs, max(lr.last for lr in run.rows[-1].lr.values())
    if plain and all(math.isclose(lr.first, lr.last) for lr in run.rows[-1].lr.values()):
        early = "an epoch" if plain == 1 else f"{plain} epochs"
        yield f"learning rate: the cosine ends {early} before the run does, and stays at {floor:.3g} from then on"
    if recipe.closes_at is not None and recipe.closes_at == recipe.epochs - plain - 1:
        first = recipe.closes_at + 1
        yield f"mosaic: it closes and L1 starts with epoch {first}, one earlier than no_aug_epochs {plain} says"


def _of_long_warmup(run: Explanation, recipe: YoloXRecipe) -> Iterator[str]:
    """A plan may ask for one that does not end."""
    length = run.schedule.base.warmup_epochs
    if length >= run.config.epochs:
        asked = recipe.lr(run.config.batch_size)
        reached = max(lr.last for row in run.rows for lr in row.lr.values()) / asked
        beyond = f"it never gets beyond {reached:.0%} of {asked:.4g}"
        yield f"warm-up: {length:g} epochs, the run has {run.config.epochs}: {beyond}"


def _of_augmentation(run: Explanation) -> Iterator[str]:
    recipe, close = run.views.recipe, run.views.close_mosaic_from
    if run.config.rect:
        yield "mosaic: --rect makes none, whatever the hyper-parameters say"
    if recipe.mosaic and close is None:
        yield f"mosaic: it never closes, the last epochs too learn from mosaics ({_closing(run)} would close it)"
    if recipe.mosaic and close is not None and close <= run.rows[0].epoch:
        yield f"mosaic: it is {'closed from the first epoch on' if run.past is None else 'over'}"
    if 0 < recipe.mosaic < 1 and recipe.mixup:
        share = recipe.mosaic * recipe.mixup
        yield f"mixup: only mosaics are blended, so {recipe.mixup:g} means {share:.1%} of the images"


def _closing(run: Explanation) -> str:
    if run.recipe is None:
        return "--close-mosaic N"
    missing = [] if run.recipe.close_mosaic else ["close_mosaic=true"]
    return " ".join(["--set", *missing, *([] if run.recipe.no_aug_epochs else ["no_aug_epochs=N"])])


def _of_average(run: Explanation) -> Iterator[str]:
    if run.recipe is not None and not run.recipe.ema:
        yield "average: the recipe has none, the trained weights themselves are evaluated"
        return
    decay = YOLOV7_DECAY if run.recipe is None else run.recipe.ema_decay
    if run.updates < _RAMPED:
        reached = decay * (1 - math.exp(-run.updates / _RAMP))
        spans = round(1 / (1 - reached))
        yield (
            f"average: its decay rises over some {_RAMPED:,} updates and the run has {run.updates:,}: "
            f"it ends at {reached:.4f} instead of {decay:g} and spans about {spans:,} update{'s' * (spans != 1)}"
        )


def _of_plan(run: Explanation) -> Iterator[str]:
    plan = run.plan
    if plan.unreached:
        verb = "gets" if plan.unreached == 1 else "get"
        yield f"plan: {plan.unreached} of its phases {verb} no epoch in a run of {run.config.epochs}"
    if plan.extended:
        yield f"plan: its last phase goes on for {plan.extended} epochs more than it says"
    for before, phase in zip(plan.phases, plan.phases[1:], strict=False):
        length, rising = phase.end - phase.first, phase.warmup_epochs or 0
        if rising > length and phase.end > run.rows[0].epoch:
            yield (
                f"plan: phase {phase.number + 1} warms up for {rising:g} epochs and has {length}: its learning rate "
                f"never gets beyond {length / rising:.2g} of the schedule's"
            )
        thawed = [layer for layer in phase.learning if layer not in before.learning]
        row = next((row for row in run.rows if row.epoch == phase.first), None)
        if thawed and row is not None and not phase.warmup_epochs:
            rate = max(row.lr[scope.name].first for scope in run.scopes if scope.layers & set(thawed))
            highest = max(lr.last for other in run.rows for lr in other.lr.values())
            if rate >= _FULL_SPEED * highest:
                yield (
                    f"plan: phase {phase.number + 1} thaws layers at {rate / highest:.0%} of the highest learning "
                    "rate, which can undo what they know: give it warmup_epochs, or a smaller lr or lr_factors"
                )
    if word := frozen_at_random(plan, run.model, run.anew):
        yield f"freeze: {word}"
    frozen = plan.phases[0].trainable(run.model) < run.parameters
    if frozen and not plan.phases[0].still_until:
        yield "freeze: as in the published code BatchNorm statistics of frozen layers drift (--fixed keeps them)"


def _of_length(run: Explanation) -> Iterator[str]:
    asked = run.config.batch_size
    if run.updates < _FEW_UPDATES:
        fewer = "--batch-size" if run.rows[-1].accumulate.last == 1 else "nbs in --hyp"
        times = "once" if run.updates == 1 else f"{run.updates} times"
        yield f"length: weights move {times} in all, which is little: more epochs, or fewer images per update ({fewer})"
    if run.batch < asked:
        yield f"batch: there are {run.batch} images, fewer than a batch of {asked}, which the schedule is made for"
    if run.config.max_steps is not None and len(run.rows) < run.config.epochs:
        yield (
            f"length: --max-steps ends the run in epoch {len(run.rows)} of {run.config.epochs}, "
            "with the learning rate that epoch has"
        )
