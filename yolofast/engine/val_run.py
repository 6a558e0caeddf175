"""An evaluation from its settings to its files; a measurement of speed; a study of sizes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from yolofast.engine.evaluation import OnBatch, add_found, evaluate
from yolofast.engine.tally import Evaluated, Tally
from yolofast.engine.thresholds import Thresholds
from yolofast.engine.val_files import save_files
from yolofast.engine.val_subject import Subject
from yolofast.evaluate.coco import CocoMetrics
from yolofast.evaluate.coco_result import CocoResult
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.mosaic_picture import save_mosaics
from yolofast.evaluate.study import StudyRow
from yolofast.evaluate.timing import Timing
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.structures import Batch, Detections

_DRAWN_BATCHES = 3
_SPEED_CONF, _SPEED_IOU = 0.25, 0.45


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
    evaluated = evaluate(
        subject.predictor.models[0], batches, index, subject.predictor.precision,
        thresholds=subject.thresholds, v5_metric=config.v5_metric,
        predict=partial(subject.predictor, augment=config.augment), keep=_keeps(subject),
        on_batch=_drawing(subject, folder) if config.plots else None,
    )  # fmt: skip
    coco = _coco(subject, evaluated)
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
    device, spent, tally = subject.predictor.precision.device, [0.0, 0.0], Tally(len(subject.index.names))
    for number, batch in enumerate(subject.batches(shape)):
        images = batch.images.to(device)
        for _ in range(2 if number == 0 else 1):  # the first one warms up
            started = _now(device)
            predictions = predict(images)
            asked = _now(device)
            found = thresholds.detections(predictions)
            ended = _now(device)
        spent = [spent[0] + asked - started, spent[1] + ended - asked]
        add_found(tally, subject.index, batch, found)
    images_ms = 1000 / max(len(subject.index), 1)
    timing = Timing(
        inference=spent[0] * images_ms,
        suppression=spent[1] * images_ms,
        images=len(subject.index),
        size=max(shape),
        batch=subject.config.batch_size,
    )
    return StudyRow(tally.result(v5_metric=subject.config.v5_metric).metrics, timing)


def measure_speed(subject: Subject) -> Timing:
    """As in detection: with validation's thresholds suppression has far more to do."""
    return measure(subject, subject.shape, replace(subject.thresholds, conf=_SPEED_CONF, iou=_SPEED_IOU)).timing


def study(subject: Subject, sizes: Sequence[int]) -> list[StudyRow]:
    return [measure(subject, subject.shape_at(size), subject.thresholds) for size in sizes]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _keeps(subject: Subject) -> bool:
    config = subject.config
    return config.coco or config.save_json or config.save_txt or config.save_hybrid


def _coco(subject: Subject, evaluated: Evaluated) -> CocoMetrics | None:
    if not (subject.config.coco or subject.config.save_json):
        return None
    coco = CocoMetrics(subject.index)
    coco.merge(evaluated.found)
    return coco


def _drawing(subject: Subject, folder: Path) -> OnBatch:
    """Pictures of the first few batches."""

    def draw(number: int, batch: Batch, found: list[Detections]) -> None:
        if number < _DRAWN_BATCHES:
            images = batch.images if subject.predictor.inputs.rgb else batch.images.flip(1)
            save_mosaics(folder, number, images, batch.targets, found, subject.index.names)

    return draw
