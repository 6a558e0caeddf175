"""How good a model is on a split: its detections compared with the labels, and its loss.

The device looks for objects while a thread compares what was found in the batches before; the loader's threads prepare
those that come. Nobody makes the device wait (`late_comparison`); the price is the predictions of two batches in its
memory.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from yolofast.decoding import decode
from yolofast.engine.criterion import Criterion
from yolofast.engine.late_comparison import LateComparison
from yolofast.engine.precision import Precision
from yolofast.engine.tally import Evaluated, Tally
from yolofast.engine.thresholds import Thresholds, to_validate
from yolofast.engine.validation_mode import evaluated
from yolofast.image_index import ImageIndex
from yolofast.model.network import Network
from yolofast.structures import Batch, Detections

__all__ = ["Evaluated", "OnBatch", "add_found", "evaluate", "fill_tally", "in_original"]

OnBatch = Callable[[int, Batch, list[Detections]], None]
"""Gets a batch's number, the batch, and what was found in it, in input pixels."""


def evaluate(
    model: Network,
    batches: Iterable[Batch],
    index: ImageIndex,
    precision: Precision,
    *,
    criterion: Criterion | None = None,
    thresholds: Thresholds | None = None,
    v5_metric: bool = False,
    predict: Callable[[Tensor], Tensor] | None = None,
    keep: bool = False,
    on_batch: OnBatch | None = None,
) -> Evaluated:
    """The result of one process that sees all batches; several fill a `Tally` each (`fill_tally`) and merge them.

    Leaves the model in the mode it was in.
    """
    tally = fill_tally(
        model, batches, index, precision, criterion=criterion, thresholds=thresholds, predict=predict, keep=keep,
        on_batch=on_batch,
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
    thresholds: Thresholds | None = None,
    predict: Callable[[Tensor], Tensor] | None = None,
    keep: bool = False,
    on_batch: OnBatch | None = None,
) -> Tally:
    """What is found in these batches, which may be a part of the split's, compared with the labels.

    `predict`, if given, is asked for predictions instead of `model` alone (`Predictor`); there is no loss then. `keep`:
    the tally holds the detections themselves too. `thresholds` are by default the network's own (`to_validate`).
    `on_batch` is called in another thread, in the order of the batches.
    """
    assert criterion is None or predict is None
    chosen = thresholds or to_validate(model)
    tally = Tally(len(index.names), keep=keep)
    losses: list[dict[str, Tensor]] = []
    lead = model.layout.levels * model.layout.heads

    def look(batch: Batch) -> Tensor:
        images = batch.images.to(precision.device, non_blocking=True)
        if predict is not None:
            return predict(images)
        with precision.autocast():
            raw = model(model.inputs.as_input(images).contiguous(memory_format=torch.channels_last))
        if criterion is not None:
            losses.append(criterion(raw, batch.targets.to(precision.device, non_blocking=True)).parts)
        return decode(raw[:lead], model)

    def compare(number: int, batch: Batch, found: list[Detections]) -> None:
        found = add_found(tally, index, batch, found)
        if on_batch is not None:
            on_batch(number, batch, found)

    with evaluated(model, criterion), LateComparison(compare) as comparison:
        for number, batch in enumerate(batches):
            comparison.add(number, batch, chosen.begin(look(batch)))
        comparison.finish()
    tally.add_losses(_on_host(losses))
    return tally


def _on_host(losses: list[dict[str, Tensor]]) -> list[dict[str, float]]:
    """The parts of each batch's loss, copied at once."""
    if not losses:
        return []
    rows = torch.stack([torch.stack(list(parts.values())).detach().double() for parts in losses]).tolist()
    return [dict(zip(losses[0], row, strict=True)) for row in rows]


def add_found(tally: Tally, index: ImageIndex, batch: Batch, found: list[Detections]) -> list[Detections]:
    """Counts what was found in a batch, in input pixels, and gives it back in the classes of the split."""
    found = _in_classes_of(index, found)
    tally.add(index, batch.sources, in_original(found, batch, index))
    return found


def _in_classes_of(index: ImageIndex, found: list[Detections]) -> list[Detections]:
    """Of a network that knows more classes than a split of one (`--single-cls`), which one it is does not matter."""
    if len(index.names) > 1:
        return found
    return [Detections(one.boxes, one.scores, np.zeros_like(one.labels)) for one in found]


def in_original(found: list[Detections], batch: Batch, index: ImageIndex) -> list[Detections]:
    """Detections in pixels of the images as they are on the disk: `Detections.in_original` of all at once."""
    assert batch.gain is not None and batch.pad is not None and len(found) == len(batch.sources)
    counts = [len(one) for one in found]
    whole = Detections(
        np.concatenate([one.boxes for one in found]),
        np.concatenate([one.scores for one in found]),
        np.concatenate([one.labels for one in found]),
    )
    image, sizes = np.repeat(np.arange(len(found)), counts), index.sizes[batch.sources]
    moved = whole.in_original(batch.gain[image], batch.pad[image], sizes[image])
    stops = np.cumsum(counts).tolist()
    return [moved[stop - count : stop] for count, stop in zip(counts, stops, strict=True)]
