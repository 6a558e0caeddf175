"""What a run will really do, epoch by epoch, found before it runs: by its own schedule, plan and augmentation.

Nothing here is an estimate of a formula: every number comes from the objects that training uses.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.loader.order import mosaic_is_closed
from yolofast.model.contract import Network
from yolofast.optim.optimizer import BIASES
from yolofast.optim.schedule import StepSettings
from yolofast.train.data import Say, read_data, training_order
from yolofast.train.families.family import Augmentation, EpochFacts, EpochRange, Explained, Rules, family_of, rules_of
from yolofast.train.finetune.freeze_plan import FreezePhase, FreezePlan, PlannedSchedule, plan_of, planned
from yolofast.train.finetune.plan_file import PlanSpec
from yolofast.train.run import prepare_model

CHANCES = ("mosaic", "mixup", "paste_in", "copy_paste", "fliplr", "flipud", "colour")
_GROUPS = 3


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Layers that learn alike in all phases."""

    name: str
    layers: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class RunSoFar:
    """What a resumed run has behind it."""

    epochs: int
    planned: int
    """Of how many epochs the schedule was that they followed."""
    lr: float
    """The last."""
    lr_factor: float = 1.0
    """By which losses that were NaN have lowered it."""


@dataclass(frozen=True, kw_only=True)
class Explanation(Explained):
    rules: Rules
    augmentation: Augmentation
    images: int
    """Of the data set."""
    batch: int
    """Images of a full batch: no more than there are."""
    scopes: tuple[Scope, ...]
    past: RunSoFar | None
    mosaic_closed_before: bool
    """In the last epoch of the past."""

    @property
    def phases(self) -> tuple[FreezePhase, ...]:
        """Those that are not over."""
        return tuple(phase for phase in self.plan.phases if phase.end > self.rows[0].epoch)

    def settings_at(self, epoch: int, batch: int) -> StepSettings:
        return _lowered(self.schedule.at(epoch, batch), self.past)

    @property
    def updates(self) -> int:
        return sum(row.updates for row in self.rows)

    @property
    def images_seen(self) -> int:
        return sum(row.images for row in self.rows)


def explain(config: TrainConfig, say: Say, own: PlanSpec | None = None, past: RunSoFar | None = None) -> Explanation:
    """Data and network are read, but no pixels: as quick as the labels are.

    `own` is the plan of a resumed run, `past` what it has done; some epochs must be left.
    """
    hyp, data = hyp_of(config), read_data(config, say)
    say_weights = say if past is None else lambda text: None  # those it began with
    start = prepare_model(
        config, data.train.names, torch.device("cpu"), say_weights, hyp.get("anchors"), own, fresh=past is None
    )
    model = start.model
    config = family_of(model).fitted(config, model, say)
    rules = rules_of(config, hyp, model)
    closed_before = False
    if past is not None:  # a run that is given more epochs closes mosaics later
        before = rules_of(dataclasses.replace(config, epochs=past.planned), hyp, model).augmentation
        closed_before = mosaic_is_closed(before.close_mosaic_from, past.epochs - 1)
    plan, stride = plan_of(config, model, own), max(model.layout.strides)
    always, repeats = rules.always_shuffled, rules.ingredients.repeats
    order = training_order(config, data.train, stride, always_shuffled=always, repeats=repeats).order
    sizes = [len(batch.images) for batch in order.batches(0)]
    schedule = planned(rules.schedule(len(order)), plan)
    augmentation = rules.augmentation
    if config.rect:
        augmentation = dataclasses.replace(augmentation, recipe=augmentation.recipe.without_mosaic())
    scopes = scopes_of(model, plan)
    first = 0 if past is None else past.epochs
    rows = tuple(
        _facts(epoch, sizes, schedule, augmentation, scopes, rules.loss_name(epoch), config.max_steps, past)
        for epoch in range(first, config.epochs)
    )
    rows = tuple(row for row in rows if row.images)
    if not rows:
        raise UserError(f"--max-steps {config.max_steps} leaves nothing to train", fix="give more of them")
    return Explanation(
        config=config,
        hyp=rules.hyp,
        rules=rules,
        model=model,
        anew=start.anew if past is None else frozenset(),
        plan=plan,
        schedule=schedule,
        augmentation=augmentation,
        weight_decay=rules.weight_decay,
        images=len(data.train),
        batches=len(order),
        batch=order.batch_size,
        scopes=scopes,
        rows=rows,
        past=past,
        mosaic_closed_before=closed_before,
    )


def _lowered(settings: StepSettings, past: RunSoFar | None) -> StepSettings:
    if past is None:
        return settings
    return dataclasses.replace(settings, lr=tuple(lr * past.lr_factor for lr in settings.lr))


def scopes_of(model: Network, plan: FreezePlan) -> tuple[Scope, ...]:
    """From the head down; what never learns is left out."""
    courses: dict[tuple[float | None, ...], list[int]] = {}
    for index, layer in enumerate(model.layers):
        course = tuple(phase.learning[index].rate if index in phase.learning else None for phase in plan.phases)
        if list(layer.module.parameters()) and any(rate is not None for rate in course):
            courses.setdefault(course, []).append(index)
    scopes = [Scope(name=_called(model, layers), layers=frozenset(layers)) for layers in courses.values()]
    return tuple(sorted(scopes, key=lambda scope: -max(scope.layers)))


def _called(model: Network, layers: Sequence[int]) -> str:
    with_parameters = [n for n, layer in enumerate(model.layers) if list(layer.module.parameters())]
    if set(layers) == set(with_parameters):
        return "everything"
    whole, left = [], list(layers)
    for part in dict.fromkeys(model.layers[n].part for n in layers):
        members = [n for n in with_parameters if model.layers[n].part == part]
        if set(members) <= set(layers):
            whole.append(part)
            left = [n for n in left if n not in members]
    return "+".join([*whole, *_runs(model, left, with_parameters)])


def _runs(model: Network, layers: Sequence[int], with_parameters: Sequence[int]) -> list[str]:
    """`23-37`, `dark2-dark4`: neighbours are named by the first and the last of them."""
    runs: list[list[int]] = []
    for n in layers:
        if runs and with_parameters.index(n) == with_parameters.index(runs[-1][-1]) + 1:
            runs[-1].append(n)
        else:
            runs.append([n])

    def name(n: int) -> str:
        return str(n) if model.numbered else model.layers[n].name

    return [name(run[0]) if len(run) == 1 else f"{name(run[0])}-{name(run[-1])}" for run in runs]


def _facts(
    epoch: int, sizes: Sequence[int], schedule: PlannedSchedule, augmentation: Augmentation, scopes: Sequence[Scope],
    loss: str, max_steps: int | None, past: RunSoFar | None,
) -> EpochFacts:  # fmt: skip
    batches = len(sizes) if max_steps is None else max(min(len(sizes), max_steps - epoch * len(sizes)), 0)
    first, last = (_lowered(schedule.at(epoch, batch), past) for batch in (0, max(batches - 1, 0)))
    phase, recipe = schedule.plan.at(epoch), augmentation.at(epoch)
    return EpochFacts(
        epoch=epoch,
        phase=phase,
        lr={
            scope.name: EpochRange(first=rate_of(scope, phase, first), last=rate_of(scope, phase, last))
            for scope in scopes
            if scope.layers & set(phase.learning)
        },
        bias_lr=EpochRange(first=first.lr[BIASES], last=last.lr[BIASES]),
        momentum=EpochRange(first=first.momentum, last=last.momentum),
        accumulate=EpochRange(first=first.accumulate, last=last.accumulate),
        updates=_updates(schedule, epoch, len(sizes), batches, first, last),
        images=sum(sizes[:batches]),
        chances={**{name: getattr(recipe, name) for name in CHANCES}, "mixup": recipe.mosaic * recipe.mixup},
        loss=loss,
    )


def rate_of(scope: Scope, phase: FreezePhase, settings: StepSettings) -> float:
    """The learning rate of its weights; it has to be learning in that phase."""
    return settings.lr[phase.paces.index(phase.learning[min(scope.layers)]) * _GROUPS]


def _updates(
    schedule: PlannedSchedule, epoch: int, per_epoch: int, batches: int, first: StepSettings, last: StepSettings
) -> int:
    """Batches after which weights move, as the training loop counts them."""
    start = epoch * per_epoch
    if first.accumulate == last.accumulate and first.averaged == 1:  # it only ever grows
        every = first.accumulate
        return -(-(start + batches) // every) - -(-start // every)
    return sum(schedule.at(epoch, batch).updates(start + batch, batch, per_epoch) for batch in range(batches))
