"""From settings to a run ready to go: data, model, loss, optimizer, loaders, gear."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.changes import SplitRecord, record_of
from yolofast.detect.accumulator import Evaluated
from yolofast.detect.networks import Start, check_number_of_heads, starting_network
from yolofast.loader.workers import WorkerLoader
from yolofast.model.network import Network
from yolofast.model.summary import network_name
from yolofast.optim.optimizer import build_optimizer, parameter_groups
from yolofast.precision import WHY_NOT_OUR_KERNELS, Precision
from yolofast.ranks import reduces, share_counts, world
from yolofast.store.background import BackgroundCheck
from yolofast.structures import QUAD_IMAGES, Batch
from yolofast.train.data import (
    Batches,
    Data,
    ImageWeighting,
    Say,
    fit_anchors,
    fit_biases,
    gpu_makes_batches,
    prepare_batches,
    read_data,
)
from yolofast.train.distributed.averaged_step import distribute, synchronise_batch_norm
from yolofast.train.distributed.join import device_of_rank, in_turn
from yolofast.train.evaluation import Informative, RunEvaluation, measure_again, validation_of
from yolofast.train.families.family import Losses, Resize, Rules, family_of, rules_of
from yolofast.train.finetune.folded_weights import has_folded_batch_norm, unfold_batch_norm
from yolofast.train.finetune.freeze_plan import PlannedSchedule, frozen_at_random, plan_of, planned
from yolofast.train.finetune.phased_training import PhasedTraining
from yolofast.train.finetune.plan_file import PlanSpec
from yolofast.train.gears.waking import wake
from yolofast.train.step import TrainStep

_PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def prepare_model(
    config: TrainConfig, names: tuple[str, ...], device: torch.device, say: Say, anchors: int | None = None,
    plan: PlanSpec | None = None, *, fresh: bool = True,
) -> Start:  # fmt: skip
    """`plan` is that of a resumed run, which is not `fresh`: its weights were checked when it began."""
    torch.manual_seed(config.seed)
    check_number_of_heads(config.heads, config.head_config)
    partly = config.transfer_weights or not fresh
    start = starting_network(
        config.cfg, config.weights, len(names), config.head_config, say, anchors, partly=partly
    )  # fmt: skip
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
    batches: Batches
    schedule: PlannedSchedule
    phases: PhasedTraining
    evaluation: RunEvaluation
    rules: Rules
    """How its family trains it."""
    pixels: BackgroundCheck
    resize: Resize | None = None
    """None: all batches have the size trained at."""
    weighting: ImageWeighting | None = None
    informative: Informative | None = None
    makes_batches_here: bool = False
    """Whether asking for a batch is making it, rather than waiting for it."""

    @cached_property
    def records(self) -> dict[str, SplitRecord]:
        """What its data set is made of; nothing is known of files that were not looked at."""
        if self.config.trust_index:
            return {}
        return {"train": record_of(self.data.train), "val": record_of(self.data.val)}

    @property
    def images_joined(self) -> int:
        """How many images of the data set make one that the network sees."""
        return QUAD_IMAGES if self.config.quad else 1

    def images_used(self, batch: Batch) -> int:
        """Of the data set, by the batches that all processes have at once."""
        return len(batch.images) * self.images_joined * world()

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
        return self.resize is None and not self.config.rect

    @property
    def network_facts(self) -> dict[str, Any]:
        """What the run's folder says of it."""
        parameters = sum(p.numel() for p in self.model.parameters())
        return {"network": title_of(self.config, self.model), "parameters": parameters}

    def close(self) -> None:
        self.pixels.close()
        if isinstance(self.batches, WorkerLoader):
            self.batches.close()

    def mend_pixels(self, say: Say) -> None:
        if self.pixels.mend(say) and isinstance(self.batches, WorkerLoader):
            self.batches.renew_workers()

    def start_epoch(self, epoch: int) -> None:
        self.model.train()
        self.phases.start_epoch(epoch)
        self.step.ema.start_epoch(epoch)
        self.step.criterion = self.losses.training(epoch)
        if self.weighting is not None:
            self.batches.order = self.weighting.weighted(self.batches.order)
        if self.informative is not None:
            self.informative.start_epoch(epoch)
            self.batches.order = dataclasses.replace(self.batches.order, among=self.informative.chosen)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to know besides the models and the step."""
        maps = [] if self.weighting is None else self.weighting.maps.tolist()
        known = {"losses": self.losses.state_dict(), "class_maps": maps, "phases": self.phases.state_dict()}
        if self.informative is None or self.informative.chosen is None:
            return known
        return {**known, "chosen_images": self.informative.chosen.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Before that of the step, whose optimizer is grouped by phase."""
        self.losses.load_state_dict(state["losses"])
        if "phases" in state:
            self.phases.load_state_dict(state["phases"])
        if self.weighting is not None:
            maps = np.array(state["class_maps"], np.float64)
            if maps.shape != self.weighting.maps.shape:
                raise ValueError(f"scores of {maps.size} classes")
            self.weighting.maps = maps
        if self.informative is not None and "chosen_images" in state:
            self.informative.chosen = chosen = np.array(state["chosen_images"], np.int64)
            if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= len(self.data.train):
                raise ValueError("chosen images that are not there")

    def settle(self, epoch: int) -> None:
        """After the last epoch, where a recipe wants the average's statistics measured again."""
        average, count = self.step.ema.model, self.rules.ingredients.bn_batches
        if count is None:
            return
        batches = islice(self.batches.epoch(epoch), count)
        with torch.no_grad(), self.step.precision.autocast():
            measure_again(average, (self.model.inputs.as_input(self.step.on_device(one).images) for one in batches))

    def evaluate(self, epoch: int) -> Evaluated:
        found = self.evaluation.of_all_ranks(_average(self.step), epoch, self.losses.validation(epoch))
        if self.weighting is not None:
            self.weighting.learn(found.metrics)
        return found


def prepare_run(config: TrainConfig, say: Say, *, fresh: bool = True, plan: PlanSpec | None = None) -> Run:
    """A run that is not `fresh` has a state to be loaded: nothing is fitted for it. It may have a `plan` of its own."""
    device = device_of_rank(config.device)
    precision = Precision.choose(config.precision, device)
    if gpu_makes_batches(config, device):  # otherwise processes are forked, which nothing must be under way for
        wake(precision)
    hyp = hyp_of(config)
    share_counts(not config.faithful)
    data = in_turn(lambda: read_data(config, say))
    anchors = hyp.get("anchors")
    # Which weights a run was started from says nothing of a resumed one.
    say_weights = say if fresh else lambda text: None
    start = prepare_model(config, data.train.names, device, say_weights, anchors, plan, fresh=fresh)
    model = start.model
    config = family_of(model).fitted(config, model, say)
    rules = rules_of(config, hyp, model)
    lines = introduction(rules, data, model, precision, fresh=fresh)
    for line in (*lines, *rules.announced(plan_of(config, model, plan))):
        say(line)
    if fresh and not config.noautoanchor:
        fit_anchors(model, data.train, config.train_size, hyp["anchor_t"], config.seed, say, always=anchors is not None)
    if fresh and rules.ingredients.data_biases:
        fit_biases(model, data.train, config.train_size, start.anew, say)
    losses, step = prepare_step(rules, model, precision)
    phases = PhasedTraining(plan_of(config, model, plan), model, step, say)
    if fresh and (word := frozen_at_random(phases.plan, model, start.anew)):
        say(f"warning: {word}")
    if reduces():
        distribute(step)
    pixels = BackgroundCheck(skip_bad=config.skip_bad)
    batches = prepare_batches(config, rules, data.train, precision, model, say, pixels.add)
    schedule = planned(rules.schedule(len(batches)), phases.plan)
    if fresh and config.weights and has_folded_batch_norm(model):
        per_update = schedule.at(config.epochs - 1, len(batches) - 1).accumulate
        unfold_batch_norm(step, phases.plan, lambda: batches.epoch(0), per_update, say)
    validation = validation_of(config, data.val, model, rules.evaluation_shape, pixels.add)
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
        evaluation=RunEvaluation(rules, precision, data.val, validation),
        rules=rules,
        pixels=pixels,
        resize=rules.resize(len(batches)),
        weighting=ImageWeighting(data.train) if config.image_weights else None,
        informative=Informative.of(rules, precision, data.train, model, lambda: _average(step), pixels.add),
        makes_batches_here=isinstance(batches, WorkerLoader) and not batches.ahead,
    )


def introduction(rules: Rules, data: Data, model: Network, precision: Precision, *, fresh: bool) -> Iterator[str]:
    """What a run is, in the lines it begins with."""
    config = rules.config
    parameters = sum(p.numel() for p in model.parameters())
    classes = "1 class" if model.nc == 1 else f"{model.nc:,} classes"
    yield f"network: {title_of(config, model)}, {parameters:,} parameters, {classes}, {_beginning(config, fresh)}"
    yield f"data: {config.data}, {len(data.train):,} images to train on, {len(data.val):,} to validate on"
    yield f"device: {_device(config, precision)}, {_PRECISIONS[precision.dtype]}"
    if precision.device.type == "cuda" and WHY_NOT_OUR_KERNELS:
        yield f"kernels: those of torch, which are slower ({WHY_NOT_OUR_KERNELS})"
    height, width = rules.augmentation.height, rules.augmentation.width
    pixels = str(width) if width == height else f"{height}×{width}"
    batch = f"batches of {min(config.batch_size, len(data.train))}"
    yield f"training: {pixels} pixels, {batch}, {config.epochs:,} epoch{'s' * (config.epochs != 1)}"


def title_of(config: TrainConfig, model: Network) -> str:
    """The name of a run's network: as it was asked for, or which one the weights are of."""
    if config.cfg:
        return Path(config.cfg).stem
    return network_name(model.graph_yaml) or f"that of {Path(config.weights).name}"


def _beginning(config: TrainConfig, fresh: bool) -> str:
    if not fresh:
        return "as trained so far"
    return f"from the weights {config.weights}" if config.weights else "from scratch"


def _device(config: TrainConfig, precision: Precision) -> str:
    if precision.device.type == "cuda":
        name = torch.cuda.get_device_name(precision.device)
        return f"{world()} × {name}" if world() > 1 else name
    cpu = f"CPU, {torch.get_num_threads()} of its threads"
    return cpu if config.on_cpu else f"no GPU can be used, so the {cpu}"


def _average(step: TrainStep) -> Network:
    """What is evaluated."""
    assert isinstance(step.ema.model, Network)
    return step.ema.model


def prepare_step(rules: Rules, model: Network, precision: Precision) -> tuple[Losses, TrainStep]:
    groups = parameter_groups(model, rules.weight_decay)
    optimizer = build_optimizer(rules.config.optimizer, groups)
    losses = rules.losses()
    return losses, TrainStep(model, losses.training(0), optimizer, rules.average(), precision, rules.terms)
