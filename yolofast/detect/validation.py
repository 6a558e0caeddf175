"""`val`: an evaluation from its settings to its files, a measurement of speed, a study of image sizes."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from yolofast.config.predict import ValConfig
from yolofast.config.yolox_recipe import shape_in_form
from yolofast.dataset.data_argument import data_file, read_named_split
from yolofast.detect.accumulator import Evaluated, MetricAccumulator
from yolofast.detect.evaluation import OnBatch, accumulate_metrics, add_found
from yolofast.detect.networks import TrainedModel, in_strides, shape_of
from yolofast.detect.predictor import Predictor, to_validate
from yolofast.errors import UserError
from yolofast.evaluate.coco import CocoMetrics, CocoResult
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.matching import ground_truth
from yolofast.evaluate.mosaic_picture import save_mosaics
from yolofast.evaluate.nms import Thresholds
from yolofast.evaluate.plots import save_plots
from yolofast.evaluate.result_files import label_text, results_json, save_per_class_ap, with_labels
from yolofast.evaluate.study import Speed, StudyRow
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.files.atomic_file import write_one_of_many, write_output
from yolofast.image_index import ImageIndex
from yolofast.loader.validation_batches import ValidationBatches, validation_batches
from yolofast.media.pictures import UniqueNames
from yolofast.precision import Precision, device_of
from yolofast.store.choose import Kind
from yolofast.store.images import open_images
from yolofast.structures import Batch, Detections

Say = Callable[[str], None]

_SPLITS = ("train", "val", "test")
_DRAWN_BATCHES = 3
_SPEED_CONF, _SPEED_IOU = 0.25, 0.45


@dataclass(frozen=True)
class Subject:
    """Networks, a split and settings, opened once and evaluated at one or several sizes."""

    config: ValConfig
    index: ImageIndex
    predictor: Predictor
    shape: tuple[int, int]
    """Height and width, multiples of the stride."""
    say: Say

    @property
    def thresholds(self) -> Thresholds:
        config = self.config
        return to_validate(self.predictor.models[0], config.conf_thres, config.iou_thres, config.max_det)

    def batches(self, shape: tuple[int, int]) -> ValidationBatches:
        config, inputs, (height, width) = self.config, self.predictor.inputs, shape
        cache = "auto" if config.cache in ("gpu", "jpeg-gpu") else config.cache
        # Images used once per size are not worth packing, and JPEG would change the result.
        among: tuple[Kind, ...] = ("off",) if config.task in ("speed", "study") else ("disk", "off")
        images, _ = open_images(self.index, width, height, cache, among=among, augmented=inputs.linear, say=self.say)
        return validation_batches(
            self.index, images, config.batch_size, (width, height), self.predictor.stride,
            rect=config.rect, inputs=inputs, threads=max(1, config.workers),
        )  # fmt: skip


def open_subject(config: ValConfig, trained: Sequence[TrainedModel], say: Say) -> Subject:
    split = config.task if config.task in _SPLITS else "val"
    index = read_named_split(
        data_file(config.data, say), split, say, single_cls=config.single_cls, fraction=config.fraction,
        skip_bad=config.skip_bad,
    )  # fmt: skip
    first = trained[0]
    if first.model.nc != len(index.names) and not config.single_cls:
        what = f"{first.path} has {first.model.nc} classes, but the data set has {len(index.names)}"
        raise UserError(what, fix="evaluate it on the data it was trained for, or --single-cls")
    precision = Precision.choose(config.precision, device_of(config.device))
    predictor = Predictor([one.model for one in trained], precision)
    setting = "--img" if config.img_size else "the network's image size"
    height, width = in_strides(shape_of(trained, config.img_size), predictor.stride, say, setting)
    return Subject(config, index, predictor, (height, width), say)


def save_files(
    subject: Subject, evaluated: Evaluated, coco: CocoMetrics | None, result: CocoResult | None, folder: Path
) -> None:
    config, index = subject.config, subject.index
    if config.plots:
        save_plots(folder, evaluated.metrics, evaluated.confusion, index.names)
    if config.save_per_class_ap:
        save_per_class_ap(config.save_per_class_ap, evaluated.metrics, index.names)
    if config.save_txt or config.save_hybrid:
        found = _hybrid(subject, evaluated) if config.save_hybrid else evaluated.found
        _save_labels(subject, found, folder / "labels")
    if coco is not None and config.save_json:
        write_output(folder / "predictions.json", results_json(coco.rows(), index))
    if result is not None:
        content = json.dumps(result.as_dict(index.names), indent=2) + "\n"
        write_output(folder / "coco.json", content.encode())


def _hybrid(subject: Subject, evaluated: Evaluated) -> Iterable[tuple[int, Detections]]:
    for place, found in evaluated.found:
        (truth,) = ground_truth(subject.index, [place])
        yield place, with_labels(found, truth, subject.config.iou_thres)


def _save_labels(subject: Subject, found: Iterable[tuple[int, Detections]], folder: Path) -> None:
    names = UniqueNames()
    for place, detections in found:
        width, height = (int(side) for side in subject.index.sizes[place])
        text = label_text(detections, width, height, scores=subject.config.save_conf)
        write_one_of_many(folder / f"{names.of(subject.index.path(place))}.txt", text.encode())


@dataclass(frozen=True, kw_only=True)
class Validation:
    metrics: V7Result
    confusion: ConfusionMatrix
    names: tuple[str, ...]
    coco: CocoResult | None
    """With `coco` or `save_json`."""
    folder: Path
    """Where its files are."""
    size: int
    """The long side."""
    shape: tuple[int, int]
    """Height and width."""
    seconds: float
    """From the first batch to the metrics, without files."""


def validate(subject: Subject, folder: Path) -> Validation:
    config, index = subject.config, subject.index
    batches = subject.batches(subject.shape)
    start = time.perf_counter()
    with_coco = config.coco or config.save_json
    accumulator = accumulate_metrics(
        subject.predictor.models[0], batches, index, subject.predictor.precision, thresholds=subject.thresholds,
        predict=partial(subject.predictor, augment=config.augment),
        keep=with_coco or config.save_txt or config.save_hybrid,
        on_batch=_drawing(subject, folder) if config.plots else None,
    )  # fmt: skip
    evaluated = accumulator.result(v5_metric=config.v5_metric)
    coco = CocoMetrics(index, evaluated.found) if with_coco else None
    result = None if coco is None else coco.result()
    seconds = time.perf_counter() - start
    save_files(subject, evaluated, coco, result, folder)
    return Validation(
        metrics=evaluated.metrics,
        confusion=evaluated.confusion,
        names=index.names,
        coco=result,
        folder=folder,
        size=max(subject.shape),
        shape=subject.shape,
        seconds=seconds,
    )


@torch.no_grad()
def measure(subject: Subject, shape: tuple[int, int], thresholds: Thresholds) -> StudyRow:
    """One pass over the split at this size, the device waited for after each part of the work."""
    predict = partial(subject.predictor, augment=subject.config.augment)
    device, spent = subject.predictor.precision.device, [0.0, 0.0]
    accumulator = MetricAccumulator(len(subject.index.names))
    for number, batch in enumerate(subject.batches(shape)):
        images = batch.images.to(device)
        for _ in range(2 if number == 0 else 1):  # the first one warms up
            started = _now(device)
            predictions = predict(images)
            predicted = _now(device)
            found = thresholds.detections(predictions)
            ended = _now(device)
        spent = [spent[0] + predicted - started, spent[1] + ended - predicted]
        add_found(accumulator, subject.index, batch, found)
    images_ms = 1000 / max(len(subject.index), 1)
    timing = Speed(
        inference=spent[0] * images_ms,
        suppression=spent[1] * images_ms,
        images=len(subject.index),
        size=max(shape),
        batch=subject.config.batch_size,
    )
    return StudyRow(accumulator.result(v5_metric=subject.config.v5_metric).metrics, timing)


def measure_speed(subject: Subject) -> Speed:
    """As in detection: with validation's thresholds suppression has far more to do."""
    return measure(subject, subject.shape, replace(subject.thresholds, conf=_SPEED_CONF, iou=_SPEED_IOU)).timing


def study(subject: Subject, sizes: Sequence[int]) -> list[StudyRow]:
    """At each long side, in the same form."""
    return [measure(subject, shape_in_form(subject.shape, size), subject.thresholds) for size in sizes]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _drawing(subject: Subject, folder: Path) -> OnBatch:
    """Pictures of the first few batches."""

    def draw(number: int, batch: Batch, found: list[Detections]) -> None:
        if number < _DRAWN_BATCHES:
            images = batch.images if subject.predictor.inputs.rgb else batch.images.flip(1)
            save_mosaics(folder, number, images, batch.targets, found, subject.index.names)

    return draw
