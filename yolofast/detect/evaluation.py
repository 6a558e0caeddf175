"""How good a model is on a split: its detections compared with the labels, and its loss.

The device computes the next batch while a thread compares the detections of the batches before (`LateComparison`). So
the device never waits for the host; the price is the predictions of two batches in its memory.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType

import numpy as np
import torch
from torch import Tensor, nn

from yolofast.decoding import decode
from yolofast.detect.accumulator import MetricAccumulator
from yolofast.detect.predictor import to_validate
from yolofast.evaluate.nms import BegunSuppression, Thresholds
from yolofast.image_index import ImageIndex
from yolofast.loss.criterion import Criterion
from yolofast.model.network import Network
from yolofast.precision import Precision
from yolofast.structures import Batch, Detections

OnBatch = Callable[[int, Batch, list[Detections]], None]
"""Gets a batch's number, the batch, and its detections in input pixels."""
_MOST_WAITING = 8
"""Batches that may wait to be compared: each holds its images."""


class LateComparison:
    """`compare` is called in another thread, batch by batch; what it raises is raised here.

    Suppression needs one number from the device before it can be launched. It is read after the network of the next
    batch has been launched, so the device has work while the host waits. All device work is on one stream, in launch
    order, so memory freed here is not reused before it has been read. The thread touches host memory only.
    """

    def __init__(self, compare: OnBatch) -> None:
        self._compare = compare
        self._thread = ThreadPoolExecutor(1, "yolofast-compare")
        self._begun: tuple[int, Batch, BegunSuppression] | None = None
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> "LateComparison":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=kind is not None)

    def add(self, number: int, batch: Batch, begun: BegunSuppression) -> None:
        self._hand_over()
        self._begun = number, batch, begun
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().result()

    def finish(self) -> None:
        """Returns when everything has been compared."""
        self._hand_over()
        while self._waiting:
            self._waiting.popleft().result()

    def _hand_over(self) -> None:
        if self._begun is None:
            return
        number, batch, begun = self._begun
        late = begun.launch()
        self._waiting.append(self._thread.submit(lambda: self._compare(number, batch, late.get())))
        self._begun = None


@contextmanager
def evaluated(model: Network, criterion: Criterion | None) -> Iterator[None]:
    """BatchNorm uses its running statistics; every module is left in the mode it was in.

    Auxiliary maps count in the training loss, so a validation loss computes them too: otherwise the two curves could
    not be compared. The published code omits them, and so does a faithful loss.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    if criterion is not None and model.layout.auxiliary and not getattr(criterion, "faithful", False):
        for module in model.modules():  # containers and heads; BatchNorm and dropout stay as they are
            module.training = not isinstance(module, nn.modules.batchnorm._BatchNorm | nn.modules.dropout._DropoutNd)
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


@torch.no_grad()
def accumulate_metrics(
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
) -> MetricAccumulator:
    """The detections in these batches, which may be a part of the split's, compared with the labels.

    One process that has all batches reads `result()`; several processes `merge` theirs first.
    `predict` (a `Predictor`) replaces `model`; there is no loss then. With `keep` the result has the detections too.
    `thresholds` are by default the network's own (`to_validate`). `on_batch` is called in another thread, in order.
    """
    assert criterion is None or predict is None
    chosen = thresholds or to_validate(model)
    accumulator = MetricAccumulator(len(index.names), keep=keep)
    losses: list[dict[str, Tensor]] = []
    lead = model.layout.levels * model.layout.heads

    def predictions_of(batch: Batch) -> Tensor:
        images = batch.images.to(precision.device, non_blocking=True)
        if predict is not None:
            return predict(images)
        with precision.autocast():
            raw = model(model.inputs.as_input(images).contiguous(memory_format=torch.channels_last))
        if criterion is not None:
            losses.append(criterion(raw, batch.targets.to(precision.device, non_blocking=True)).parts)
        return decode(raw[:lead], model)

    def compare(number: int, batch: Batch, found: list[Detections]) -> None:
        found = add_found(accumulator, index, batch, found)
        if on_batch is not None:
            on_batch(number, batch, found)

    with evaluated(model, criterion), LateComparison(compare) as comparison:
        for number, batch in enumerate(batches):
            comparison.add(number, batch, chosen.begin(predictions_of(batch)))
        comparison.finish()
    if losses:  # copied at once
        rows = torch.stack([torch.stack(list(parts.values())).detach().double() for parts in losses]).tolist()
        accumulator.add_losses([dict(zip(losses[0], row, strict=True)) for row in rows])
    return accumulator


def add_found(
    accumulator: MetricAccumulator, index: ImageIndex, batch: Batch, found: list[Detections]
) -> list[Detections]:
    """Adds the detections of a batch, in input pixels, and returns them in the classes of the split."""
    if len(index.names) == 1:  # under `--single-cls` the class that a network with several found does not matter
        found = [Detections(one.boxes, one.scores, np.zeros_like(one.labels)) for one in found]
    accumulator.add(index, batch.sources, in_original(found, batch, index))
    return found


def in_original(found: list[Detections], batch: Batch, index: ImageIndex) -> list[Detections]:
    """Detections in pixels of the images as they are on the disk: `Detections.in_original` of all at once."""
    assert batch.gain is not None and batch.pad is not None and len(found) == len(batch.sources)
    counts = [len(one) for one in found]
    image, sizes = np.repeat(np.arange(len(found)), counts), index.sizes[batch.sources]
    moved = Detections.joined(found).in_original(batch.gain[image], batch.pad[image], sizes[image])
    stops = np.cumsum(counts).tolist()
    return [moved[stop - count : stop] for count, stop in zip(counts, stops, strict=True)]
