"""From settings to a run ready to go: data, model, loss, optimizer, loaders, gear."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.checkpoint.load import apply_weights
from yolofast.checkpoint.read import read_weights
from yolofast.config.builtin_data import data_yaml
from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes import shapes_data_yaml
from yolofast.dataset.split import read_split
from yolofast.engine.assigner_schedule import AssignerSchedule, ScheduledLoss
from yolofast.engine.devices import device_of
from yolofast.engine.evaluation import Evaluated, evaluate
from yolofast.engine.precision import Precision
from yolofast.engine.step import TrainStep
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import device_pixels
from yolofast.loader.order import EpochOrder
from yolofast.loader.validation import validation_batches
from yolofast.loader.workers import WorkerLoader
from yolofast.model.freeze import frozen_layers
from yolofast.model.network import Network, build_model
from yolofast.optim.ema import ModelEma
from yolofast.optim.groups import parameter_groups
from yolofast.optim.schedule import NOMINAL_BATCH, YoloV7Schedule, auto_lr, scaled_decay
from yolofast.optim.sgd import Sgd
from yolofast.store.opening import open_images

Say = Callable[[str], None]


def data_yaml_of(data: str, say: Say) -> Path:
    """The data yaml `--data` means; a built-in data set is made on first use."""

    def made() -> Path:
        say("data: the built-in shapes, made on first use")
        return shapes_data_yaml()

    return data_yaml(data, made)


@dataclass(frozen=True)
class Data:
    train: ImageIndex
    val: ImageIndex


def read_data(config: TrainConfig, say: Say) -> Data:
    path = data_yaml_of(config.data, say)
    train = read_split(path, "train", single_cls=config.single_cls, fraction=config.fraction, skip_bad=config.skip_bad)
    val = read_split(path, "val", single_cls=config.single_cls, skip_bad=config.skip_bad)
    return Data(train, val)


def prepare_model(config: TrainConfig, names: tuple[str, ...], device: torch.device, say: Say) -> Network:
    torch.manual_seed(config.seed)
    model = build_model(config.cfg, len(names), config.head_config or None)
    model.names = names
    if config.weights:
        report = apply_weights(model, read_weights(config.weights), Path(config.weights), transfer=True)
        say(f"weights: {len(report.loaded)} tensors of {config.weights}")
    _freeze(model, config.freeze)
    return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def _freeze(model: Network, layers: tuple[int, ...]) -> None:
    for number in frozen_layers(layers, len(model.model)):
        model.model[number].requires_grad_(False)


def keep_frozen_statistics(model: Network) -> None:
    """Frozen layers keep their statistics too: the published code lets them drift."""
    for layer in model.model:
        parameters = list(layer.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            for module in layer.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()


def prepare_schedule(config: TrainConfig, hyp: dict[str, Any], batches: int) -> YoloV7Schedule:
    lr, warmup = hyp["lr0"], hyp["warmup_epochs"]
    if config.auto_lr:
        lr, warmup = auto_lr(lr, warmup, config.batch_size)
    shape = {"auto": "cosine"}.get(config.lr_schedule, config.lr_schedule)
    if shape == "yoloxwarmcos":
        raise UserError("yoloxwarmcos is YOLOX's schedule", fix="use --cos-lr, --linear-lr or --flat-cos-lr")
    return YoloV7Schedule(
        epochs=config.epochs,
        batches=batches,
        batch_size=config.batch_size,
        lr=lr,
        final_share=hyp["lrf"],
        momentum=hyp["momentum"],
        warmup_epochs=warmup,
        warmup_momentum=hyp["warmup_momentum"],
        warmup_bias_lr=hyp["warmup_bias_lr"],
        shape=shape,  # type: ignore[arg-type]
        # A warm-up of 1,000 iterations, whatever the run's length, leaves short runs no time to learn.
        nominal_batch=int(hyp.get("nbs", NOMINAL_BATCH)),
        least_warmup=1000 if config.faithful else min(1000, config.epochs * batches // 5),
    )


@dataclass(frozen=True)
class Run:
    """All parts of a run, built."""

    config: TrainConfig
    hyp: dict[str, Any]
    data: Data
    model: Network
    step: TrainStep
    losses: ScheduledLoss
    batches: WorkerLoader | DeviceLoader
    schedule: YoloV7Schedule
    validation: Any

    def close(self) -> None:
        if isinstance(self.batches, WorkerLoader):
            self.batches.close()

    def start_epoch(self, epoch: int) -> None:
        self.model.train()
        if not self.config.faithful:
            keep_frozen_statistics(self.model)
        self.step.criterion = self.losses.training(epoch)

    def evaluate(self, epoch: int) -> Evaluated:
        average = self.step.ema.model
        assert isinstance(average, Network)
        return evaluate(
            average,
            self.validation,
            self.data.val,
            self.step.precision,
            criterion=self.losses.validation(epoch),
            iou=0.6 if self.config.faithful else 0.65,
            v5_metric=self.config.v5_metric,
        )


def refuse_unbuilt(config: TrainConfig) -> None:
    """Settings that would change what is learnt and that the engine cannot follow yet: better no run than another."""
    asked = {
        "--optimizer " + config.optimizer: config.optimizer != "sgd",
        "--multi-scale": config.multi_scale,
        "--image-weights": config.image_weights,
        "--sync-bn": config.sync_bn,
        "--rect": config.rect,
        "--class-aware-aug": config.class_aware_aug,
        "--style yolox": config.style == "yolox",
        "--batch-size -1": config.batch_size < 0,
        "--reduce-batch": config.reduce_batch,
        "--evolve": config.evolve,
        "--stage": bool(config.stage),
        f"--device {config.device}": len(config.devices) > 1,
        "--quad with batches made on the GPU": config.quad and config.loader != "cpu" and torch.cuda.is_available(),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise UserError(f"{what} is not built yet", fix="leave it away")


def prepare_run(config: TrainConfig, say: Say) -> Run:
    device = device_of(config.device)
    precision = Precision.choose(config.precision, device)
    hyp = hyp_of(config)
    data = read_data(config, say)
    model = prepare_model(config, data.train.names, device, say)
    assigners = AssignerSchedule.from_hyp(hyp, config.ota_from_epoch)
    losses = ScheduledLoss(model, hyp, config.train_size, assigners, config.faithful)
    decay = scaled_decay(hyp["weight_decay"], config.batch_size, int(hyp.get("nbs", NOMINAL_BATCH)))
    optimizer = Sgd(parameter_groups(model, decay))
    step = TrainStep(model, losses.training(0), optimizer, ModelEma(model), precision)
    batches = prepare_batches(config, hyp, data.train, precision, say)
    return Run(
        config=config,
        hyp=hyp,
        data=data,
        model=model,
        step=step,
        losses=losses,
        batches=batches,
        schedule=prepare_schedule(config, hyp, len(batches)),
        validation=prepare_validation(config, data.val, model, say),
    )


def prepare_batches(
    config: TrainConfig, hyp: dict[str, Any], index: ImageIndex, precision: Precision, say: Say
) -> WorkerLoader | DeviceLoader:
    size, device = config.train_size, precision.device
    on_gpu = device.type == "cuda" and config.loader != "cpu"
    images, _ = open_images(index, size, size, config.cache, device=device if on_gpu else "cpu", say=say)
    planner = Planner(index, images.sizes, Recipe.from_hyp(hyp), size, size, seed=config.seed)
    order = EpochOrder(
        len(index), seed=config.seed, shuffle=not config.faithful, batch_size=min(config.batch_size, len(index))
    )
    close = config.epochs - config.close_mosaic if config.close_mosaic else None
    if on_gpu:
        pixels = device_pixels(images, device, max(config.workers, 1))
        return DeviceLoader(planner, pixels, order, device, InputFormat(dtype=precision.dtype), close_mosaic_from=close)
    return WorkerLoader(
        BatchMaker(planner, images, quad=config.quad, skip_bad=config.skip_bad),
        order,
        workers=config.workers,
        persistent=config.persistent_workers or config.fast_dataloader,
        worker_tensor=config.worker_tensor or config.fast_dataloader,
        close_mosaic_from=close,
        say=say,
    )


def prepare_validation(config: TrainConfig, index: ImageIndex, model: Network, say: Say) -> Any:
    size = config.test_size
    images, _ = open_images(index, size, size, "disk" if config.cache in ("auto", "gpu") else config.cache,
                            augmented=False, say=lambda text: None)  # fmt: skip
    batch = config.test_batch_size or 2 * config.batch_size
    return validation_batches(index, images, batch, size, max(model.layout.strides), rect=True)
