"""Where what people believe of a run and what runs differ: one sentence for each, with the numbers of this run."""

import math
from collections.abc import Iterator

from yolofast.loader.order import mosaic_is_closed
from yolofast.train.explain.explanation import Explanation, RunSoFar
from yolofast.train.finetune.freeze_plan import frozen_at_random
from yolofast.words import counted

_RAMPED = 3
"""Ramps after which the average's decay is within 5 % of what is asked for."""
_FULL_SPEED = 0.5
"""Of the highest learning rate: from there on thawing without a warm-up is worth a word."""
_FEW_UPDATES = 100


def remarks(run: Explanation) -> list[str]:
    if run.past is not None:  # what was to be said of the beginning was said then
        return [*_of_resuming(run, run.past), *_of_augmentation(run), *_of_plan(run)]
    return [*run.rules.remarks(run), *_of_augmentation(run), *_of_average(run), *_of_plan(run), *_of_length(run)]


def _of_resuming(run: Explanation, past: RunSoFar) -> Iterator[str]:
    first = run.rows[0]
    if past.planned != run.config.epochs:
        starts = max(lr.first for lr in first.lr.values())
        yield (
            f"schedule: what ran so far followed that of {past.planned} epochs, what comes that of "
            f"{run.config.epochs}. The learning rate was {past.lr:.3g} at the end of epoch {past.epochs} and is "
            f"{starts:.3g} at the start of epoch {first.epoch + 1}"
        )
    if run.mosaic_closed_before and first.chances["mosaic"]:
        yield f"mosaic: it was closed, and comes back with epoch {first.epoch + 1}"
    if past.lr_factor != 1:
        yield f"learning rate: {past.lr_factor:g} of the schedule's, since a loss was NaN or infinite"


def _of_augmentation(run: Explanation) -> Iterator[str]:
    recipe, close = run.augmentation.recipe, run.augmentation.close_mosaic_from
    if run.config.rect:
        yield "mosaic: --rect makes none, whatever the hyper-parameters say"
    if recipe.mosaic and close is None:
        closing = run.rules.closing_flag
        yield f"mosaic: it never closes, the last epochs too learn from mosaics ({closing} would close it)"
    if recipe.mosaic and mosaic_is_closed(close, run.rows[0].epoch):
        yield f"mosaic: it is {'closed from the first epoch on' if run.past is None else 'over'}"
    if 0 < recipe.mosaic < 1 and recipe.mixup:
        share = recipe.mosaic * recipe.mixup
        yield f"mixup: only mosaics are blended, so {recipe.mixup:g} means {share:.1%} of the images"


def _of_average(run: Explanation) -> Iterator[str]:
    decay = run.rules.average_decay
    if decay is None:
        yield "average: the recipe has none, the trained weights themselves are evaluated"
        return
    ramp = run.rules.average_ramp
    if run.updates < _RAMPED * ramp:
        reached = decay * (1 - math.exp(-run.updates / ramp))
        spans = round(1 / (1 - reached))
        yield (
            f"average: its decay rises over some {_RAMPED * ramp:,.0f} updates and the run has {run.updates:,}: "
            f"it ends at {reached:.4f} instead of {decay:g} and spans about {counted(spans, 'update')}"
        )


def _of_plan(run: Explanation) -> Iterator[str]:
    plan = run.plan
    if plan.unreached:
        verb = "gets" if plan.unreached == 1 else "get"
        yield f"plan: {plan.unreached} of its phases {verb} no epoch in a run of {run.config.epochs}"
    if plan.extended:
        yield f"plan: its last phase continues for {plan.extended} epochs more than it says"
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
                    "rate, which can undo what they know. Give it warmup_epochs, or a smaller lr or lr_factors"
                )
    if word := frozen_at_random(plan, run.model, run.anew):
        yield f"freeze: {word}"
    frozen = plan.phases[0].trainable(run.model) < run.parameters
    if frozen and not plan.phases[0].statistics_frozen_until:
        yield "freeze: as in the published code BatchNorm statistics of frozen layers drift (--fixed keeps them)"


def _of_length(run: Explanation) -> Iterator[str]:
    given = run.config.batch_size
    if run.updates < _FEW_UPDATES:
        fewer = "--batch-size" if run.rows[-1].accumulate.last == 1 else "nbs in --hyp"
        times = "once" if run.updates == 1 else f"{run.updates} times"
        yield f"length: weights move {times} in all, which is little: more epochs, or fewer images per update ({fewer})"
    if run.batch < given:
        yield f"batch: there are {run.batch} images, fewer than a batch of {given}, which the schedule is made for"
    if run.config.max_steps is not None and len(run.rows) < run.config.epochs:
        yield (
            f"length: --max-steps ends the run in epoch {len(run.rows)} of {run.config.epochs}, "
            "with the learning rate that epoch has"
        )
