"""How good a model is on a split: its detections compared with the labels, and its loss.

The device looks for objects while a thread compares what was found in the batches before; the loader's threads prepare
those that come.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from yolofast.decoding import decode
from yolofast.engine.criterion import Criterion
from yolofast.engine.precision import Precision
from yolofast.engine.tally import Evaluated, Tally
from yolofast.engine.validation_mode import evaluated
from yolofast.evaluate.nms import non_max_suppression
from yolofast.image_index import ImageIndex
from yolofast.model.network import Network
from yolofast.structures import Batch, Detections, LossTerms

__all__ = ["Evaluated", "OnBatch", "evaluate", "fill_tally", "in_classes_of", "in_original"]

OnBatch = Callable[[int, Batch, list[Detections]], None]
"""Gets a batch's number, the batch, and what was found in it, in input pixels."""

_MOST_WAITING = 8
"""Batches that may wait to be compared: each holds its images."""


def evaluate(
    model: Network,
    batches: Iterable[Batch],
    index: ImageIndex,
    precision: Precision,
    *,
    criterion: Criterion | None = None,
    conf: float | None = None,
    iou: float = 0.65,
    most: int = 300,
    v5_metric: bool = False,
    predict: Callable[[Tensor], Tensor] | None = None,
    keep: bool = False,
    on_batch: OnBatch | None = None,
) -> Evaluated:
    """The result of one process that sees all batches; several fill a `Tally` each (`fill_tally`) and merge them.

    Leaves the model in the mode it was in.
    """
    tally = fill_tally(
        model, batches, index, precision, criterion=criterion, conf=conf, iou=iou, most=most, predict=predict,
        keep=keep, on_batch=on_batch,
    )  # fmt: skip
    return tally.result(v5_metric=v5_metric)


@torch.no_grad()
def fill_tally(
    model: Network,
    batches: Iterable[Batch],
    index: ImageIndex,
    precision: Precision,
    *,
    criterion: Criterion | None = None,
    conf: float | None = None,
    iou: float = 0.65,
    most: int = 300,
    predict: Callable[[Tensor], Tensor] | None = None,
    keep: bool = False,
    on_batch: OnBatch | None = None,
) -> Tally:
    """What is found in these batches, which may be a part of the split's, compared with the labels.

    `predict`, if given, is asked for predictions instead of `model` alone (`Predictor`); there is no loss then. `keep`:
    the tally holds the detections themselves too. `conf` is by default the network's own (`ValidationConvention`).
    `on_batch` is called in another thread, in the order of the batches.
    """
    assert criterion is None or predict is None
    least, several = model.validation.conf if conf is None else conf, model.validation.multi_label
    tally, losses = Tally(len(index.names), keep=keep), []
    lead = model.layout.levels * model.layout.heads

    def compare(number: int, batch: Batch, found: list[Detections]) -> None:
        found = in_classes_of(index, found)
        tally.add(index, batch.sources, in_original(found, batch, index))
        if on_batch is not None:
            on_batch(number, batch, found)

    with evaluated(model, criterion), ThreadPoolExecutor(1, "yolofast-compare") as thread:
        waiting: deque[Future[None]] = deque()
        for number, batch in enumerate(batches):
            images = batch.images.to(precision.device, non_blocking=True)
            if predict is None:
                with precision.autocast():
                    raw = model(model.inputs.as_input(images).contiguous(memory_format=torch.channels_last))
                if criterion is not None:
                    losses.append(_terms(criterion(raw, batch.targets.to(precision.device, non_blocking=True))))
            predictions = decode(raw[:lead], model) if predict is None else predict(images)
            found = non_max_suppression(predictions, least, iou, multi_label=several, max_detections=most)
            waiting.append(thread.submit(compare, number, batch, found))
            if len(waiting) > _MOST_WAITING:
                waiting.popleft().result()
        for one in waiting:
            one.result()
    tally.add_losses(torch.stack(losses).tolist() if losses else [])
    return tally


def _terms(terms: LossTerms) -> Tensor:
    """Those of `LOSSES`, on the device; YOLOX calls the first one differently."""
    box = terms.box if terms.box is not None else terms.iou
    assert box is not None
    return torch.stack((box, terms.obj, terms.cls)).detach().double()


def in_classes_of(index: ImageIndex, found: list[Detections]) -> list[Detections]:
    """Of a network that knows more classes than a split of one (`--single-cls`), which one it is does not matter."""
    if len(index.names) > 1:
        return found
    return [Detections(one.boxes, one.scores, np.zeros_like(one.labels)) for one in found]


def in_original(found: list[Detections], batch: Batch, index: ImageIndex) -> list[Detections]:
    """Detections in pixels of the images as they are on the disk."""
    assert batch.gain is not None and batch.pad is not None
    sizes = index.sizes[batch.sources].astype(np.float64)
    places = zip(found, batch.gain, batch.pad, sizes, strict=True)
    return [detections.in_original(gain, pad, size) for detections, gain, pad, size in places]
