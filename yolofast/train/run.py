"""From settings to a run ready to go: data, model, loss, optimizer, loaders, gear."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from yolofast.augment.by_head import read_head_policy
from yolofast.augment.planner import Planner
from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.named import data_yaml_of, read_named_split
from yolofast.dataset.split import read_split
from yolofast.detect.accumulator import Evaluated, MetricAccumulator
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.detect.networks import Start, check_number_of_heads, starting_network
from yolofast.detect.predictor import to_validate
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import device_pixels
from yolofast.loader.quad import GROUP, QuadOnDevice
from yolofast.loader.validation_batches import validation_batches
from yolofast.loader.workers import WorkerLoader
from yolofast.loss.criterion import Criterion
from yolofast.model.network import Network
from yolofast.optim.groups import parameter_groups
from yolofast.optim.optimizer import build_optimizer
from yolofast.precision import Precision
from yolofast.ranks import share_counts
from yolofast.structures import Batch
from yolofast.train.distributed.averaged_step import distribute
from yolofast.train.distributed.batch_norm import synchronise_batch_norm
from yolofast.train.distributed.machine import device_of_rank, in_turn, open_images_together
from yolofast.train.families.family import Losses, Rules
from yolofast.train.families.multi_scale import as_it_is
from yolofast.train.families.table import family_of, rules_of
from yolofast.train.finetune.folded_weights import has_folded_batch_norm, unfold_batch_norm
from yolofast.train.finetune.freeze_plan import frozen_at_random, plan_of
from yolofast.train.finetune.phased_training import PhasedTraining, PlannedSchedule, planned
from yolofast.train.finetune.plan_file import PlanSpec
from yolofast.train.followers import joint_result, own_part
from yolofast.train.guard import fix_if_memory_runs_out
from yolofast.train.step import TrainStep
from yolofast.train.training_order import ImageWeighting, fit_anchors, training_order
from yolofast.words import own_command

Say = Callable[[str], None]


@dataclass(frozen=True)
class Data:
    train: ImageIndex
    val: ImageIndex


def read_data(config: TrainConfig, say: Say) -> Data:
    path = data_yaml_of(config.data, say)
    train = read_split(path, "train", single_cls=config.single_cls, fraction=config.fraction, skip_bad=config.skip_bad)
    val = read_named_split(path, "val", say, single_cls=config.single_cls, skip_bad=config.skip_bad)
    return Data(train, val)


def prepare_model(
    config: TrainConfig, names: tuple[str, ...], device: torch.device, say: Say, anchors: int | None = None,
    plan: PlanSpec | None = None,
) -> Start:  # fmt: skip
    """`plan` is that of a run that goes on."""
    torch.manual_seed(config.seed)
    check_number_of_heads(config.heads, config.head_config)
    start = starting_network(config.cfg, config.weights, len(names), config.head_config, say, anchors)
    model = start.model
    model.names = names
    plan_of(config, model, plan).phases[0].freeze(model)
    if config.sync_bn:
        synchronise_batch_norm(model, device)
    return Start(model.to(device, memory_format=torch.channels_last), start.anew)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Run:
    """All parts of a run, built."""

    config: TrainConfig
    hyp: dict[str, Any]
    data: Data
    model: Network
    step: TrainStep
    losses: Losses
    batches: WorkerLoader | DeviceLoader | QuadOnDevice
    schedule: PlannedSchedule
    phases: PhasedTraining
    validation: Any
    rules: Rules
    """How its family trains it."""
    resize: Callable[[Batch, int, int], Batch] = as_it_is
    weighting: ImageWeighting | None = None

    @property
    def images_joined(self) -> int:
        """How many images of the data set make one that the network sees."""
        return GROUP if self.config.quad else 1

    @property
    def source_images_per_step(self) -> int:
        """Of the data set, used up by a full batch of this process: rates count them, as `--batch-size` does."""
        order = self.batches.order
        return order.batch_size // order.world

    @property
    def images_per_step(self) -> int:
        """Of a full batch, as this process's network sees it."""
        return self.source_images_per_step // self.images_joined

    @property
    def one_shape(self) -> bool:
        """Whether all batches that are full have images of one size: only those are worth compiling for."""
        return self.resize is as_it_is and not self.config.rect

    @property
    def makes_batches_here(self) -> bool:
        """Whether asking for a batch is making it, rather than waiting for it."""
        return isinstance(self.batches, WorkerLoader) and not self.batches.ahead

    def close(self) -> None:
        if isinstance(self.batches, WorkerLoader):
            self.batches.close()

    def start_epoch(self, epoch: int) -> None:
        self.model.train()
        self.phases.start_epoch(epoch)
        self.step.criterion = self.losses.training(epoch)
        if self.weighting is not None:
            self.batches.order = self.weighting.weighted(self.batches.order)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to know besides the models and the step."""
        maps = [] if self.weighting is None else self.weighting.maps.tolist()
        return {"losses": self.losses.state_dict(), "class_maps": maps, "phases": self.phases.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Before that of the step, whose optimizer is grouped by phase."""
        self.losses.load_state_dict(state["losses"])
        if "phases" in state:
            self.phases.load_state_dict(state["phases"])
        if self.weighting is not None:
            self.weighting.maps = np.array(state["class_maps"])

    def evaluate(self, epoch: int) -> Evaluated:
        average = self.step.ema.model
        assert isinstance(average, Network)
        found = joint_result(self._tally(average, self.losses.validation(epoch)), v5_metric=self.config.v5_metric)
        if self.weighting is not None:
            self.weighting.learn(found.metrics)
        return dataclasses.replace(found, epoch=epoch)

    def evaluate_weights(self, model: Network, epoch: int) -> Evaluated:
        """Weights the run had after that epoch, as its present ones are evaluated; by the only rank."""
        return dataclasses.replace(self._tally(model).result(v5_metric=self.config.v5_metric), epoch=epoch)

    def _tally(self, model: Network, criterion: Criterion | None = None) -> MetricAccumulator:
        smaller = f"--test-batch-size {max((self.config.test_batch_size or 2 * self.config.batch_size) // 2, 1)}"
        with fix_if_memory_runs_out("in the evaluation", smaller):
            return accumulate_metrics(
                model,
                own_part(self.validation),
                self.data.val,
                self.step.precision,
                criterion=criterion,
                thresholds=to_validate(model, conf=self.rules.conf, iou=self.rules.iou),
            )


def refuse_unbuilt(config: TrainConfig) -> None:
    """Settings that would change what is learnt and that the engine cannot follow yet: better no run than another."""
    if config.evolve:
        what = "--evolve: one run trains one network; hyper-parameters are not searched by it"
        fix = f"train once with each --hyp file (it may say only what it changes), then `{own_command()} compare RUN …`"
        raise UserError(what, fix=fix)


def prepare_run(config: TrainConfig, say: Say, *, fresh: bool = True, plan: PlanSpec | None = None) -> Run:
    """A run that is not `fresh` has a state to be loaded: nothing is fitted for it. It may have a `plan` of its own."""
    device = device_of_rank(config.device)
    precision = Precision.choose(config.precision, device)
    hyp = hyp_of(config)
    share_counts(not config.faithful)
    data = in_turn(lambda: read_data(config, say))
    anchors = hyp.get("anchors")
    # Which weights a run was started from says nothing of one that goes on.
    say_weights = say if fresh else lambda text: None
    start = prepare_model(config, data.train.names, device, say_weights, anchors, plan)
    model = start.model
    config = family_of(model).fitted(config, model, say)
    if fresh and not config.noautoanchor:
        fit_anchors(model, data.train, config.train_size, hyp["anchor_t"], config.seed, say, always=anchors is not None)
    rules = rules_of(config, hyp, model)
    for line in rules.announced(plan_of(config, model, plan)):
        say(line)
    losses, step = prepare_step(rules, model, precision)
    phases = PhasedTraining(plan_of(config, model, plan), model, step, say)
    if fresh and (word := frozen_at_random(phases.plan, model, start.anew)):
        say(f"warning: {word}")
    distribute(step)
    batches = prepare_batches(config, rules, data.train, precision, model, say)
    schedule = planned(rules.schedule(len(batches)), phases.plan)
    if fresh and config.weights and has_folded_batch_norm(model):
        per_update = schedule.at(config.epochs - 1, len(batches) - 1).accumulate
        unfold_batch_norm(step, phases.plan, batches, per_update, say)
    return Run(
        config=config,
        hyp=rules.hyp,
        data=data,
        model=model,
        step=step,
        losses=losses,
        batches=batches,
        schedule=schedule,
        phases=phases,
        validation=prepare_validation(config, data.val, model, rules.evaluation_shape),
        rules=rules,
        resize=rules.resize(len(batches)),
        weighting=ImageWeighting(data.train) if config.image_weights else None,
    )


def prepare_step(rules: Rules, model: Network, precision: Precision) -> tuple[Losses, TrainStep]:
    groups = parameter_groups(model, rules.weight_decay)
    optimizer = build_optimizer(rules.config.optimizer, groups)
    losses = rules.losses()
    return losses, TrainStep(model, losses.training(0), optimizer, rules.average(), precision, rules.terms)


def prepare_batches(
    config: TrainConfig, rules: Rules, index: ImageIndex, precision: Precision, model: Network, say: Say
) -> WorkerLoader | DeviceLoader | QuadOnDevice:
    device, layout, inputs = precision.device, model.layout, model.inputs
    on_gpu = device.type == "cuda" and config.loader != "cpu"
    views = rules.views
    size = views.width, views.height
    images = open_images_together(index, *size, config.cache, device=device if on_gpu else "cpu", say=say)
    heads = None
    if config.class_aware_aug:
        heads = read_head_policy(config.head_params, index, layout.head_classes, config.faithful)
    planner = Planner(
        index, images.sizes, views.recipe, *size, seed=config.seed, heads=heads, most_boxes=views.most_boxes
    )
    arranged = training_order(config, index, max(layout.strides), always_shuffled=rules.always_shuffled)
    if on_gpu:
        pixels = device_pixels(images, device, max(config.workers, 1))
        seen = InputFormat(dtype=precision.dtype, rgb=inputs.rgb, gain=1 / inputs.divisor)
        loader = DeviceLoader(
            planner, pixels, arranged.order, device, seen,
            shapes=arranged.shapes, close_mosaic_from=views.close_mosaic_from,
        )  # fmt: skip
        return QuadOnDevice(loader) if config.quad else loader
    return WorkerLoader(
        BatchMaker(planner, images, rgb=inputs.rgb, quad=config.quad, skip_bad=config.skip_bad),
        arranged.order,
        workers=config.workers,
        persistent=config.persistent_workers or config.fast_dataloader,
        worker_tensor=config.worker_tensor or config.fast_dataloader,
        shapes=arranged.shapes,
        close_mosaic_from=views.close_mosaic_from,
        say=say,
    )


def prepare_validation(config: TrainConfig, index: ImageIndex, model: Network, shape: tuple[int, int]) -> Any:
    height, width = shape
    cache = "auto" if config.cache == "gpu" else config.cache
    images = open_images_together(
        index, width, height, cache, among=("disk", "off"), augmented=model.inputs.linear, say=lambda text: None
    )
    batch, stride = config.test_batch_size or 2 * config.batch_size, max(model.layout.strides)
    device = next(model.parameters()).device  # where batches are kept between the epochs
    wide = width, height
    return validation_batches(index, images, batch, wide, stride, rect=True, inputs=model.inputs, device=device)
