"""How good a model is on a split: its detections compared with the labels, and its loss."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from yolofast.decoding import decode
from yolofast.engine.criterion import Criterion
from yolofast.engine.precision import Precision
from yolofast.engine.step import as_input
from yolofast.evaluate.coco import CocoMetrics
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.ground_truth import ground_truth
from yolofast.evaluate.nms import non_max_suppression
from yolofast.evaluate.v7_metrics import V7Metrics, V7Result
from yolofast.image_index import ImageIndex
from yolofast.model.network import Network
from yolofast.structures import Batch, Detections

_LOSSES = ("box", "obj", "cls")


@dataclass(frozen=True)
class Evaluated:
    metrics: V7Result
    confusion: ConfusionMatrix
    losses: dict[str, float]
    """Mean of each term over the batches; empty without a criterion."""


@torch.no_grad()
def evaluate(
    model: Network,
    batches: Iterable[Batch],
    index: ImageIndex,
    precision: Precision,
    *,
    criterion: Criterion | None = None,
    conf: float = 0.001,
    iou: float = 0.65,
    most: int = 300,
    v5_metric: bool = False,
    coco: CocoMetrics | None = None,
) -> Evaluated:
    """Leaves the model in the mode it was in. `coco`, if given, gets the detections too."""
    metrics, confusion = V7Metrics(), ConfusionMatrix(len(index.names))
    losses = torch.zeros(len(_LOSSES), dtype=torch.float64, device=precision.device)
    count, was_training = 0, model.training
    model.eval()
    for batch in batches:
        images = batch.images.to(precision.device, non_blocking=True)
        with precision.autocast():
            raw = model(as_input(images).contiguous(memory_format=torch.channels_last))
        if criterion is not None:
            terms = criterion(raw, batch.targets.to(precision.device, non_blocking=True))
            losses += torch.stack([value for value in (terms.box, terms.obj, terms.cls) if value is not None])
        found = non_max_suppression(decode(raw, model), conf, iou, multi_label=True, max_detections=most)
        found = in_original(found, batch, index)
        truth = ground_truth(index, batch.sources)
        metrics.add(found, truth)
        if coco is not None:
            coco.add(batch.sources, found)
        confusion.add(found, truth)
        count += 1
    model.train(was_training)
    means = (losses / max(count, 1)).tolist() if criterion is not None else []
    return Evaluated(metrics.result("v5" if v5_metric else "v7"), confusion, dict(zip(_LOSSES, means, strict=False)))


def in_original(found: list[Detections], batch: Batch, index: ImageIndex) -> list[Detections]:
    """Detections in pixels of the images as they are on the disk."""
    assert batch.gain is not None and batch.pad is not None
    sizes = index.sizes[batch.sources].astype(np.float64)
    places = zip(found, batch.gain, batch.pad, sizes, strict=True)
    return [detections.in_original(gain, pad, size) for detections, gain, pad, size in places]
