"""How good a model is on a split: its detections compared with the labels, and its loss.

The device looks for objects while a thread compares what was found in the batches before; the loader's threads prepare
those that come. Nobody makes the device wait (`late_comparison`); the price is the predictions of two batches in its
memory.

What was found in a batch is compared with the labels later, by a thread, while the device looks at the next ones.

A batch's suppression needs one number from the device before it can be launched. It is asked for when the network of
the batch after it has been launched, so the device has work while the host waits. The result is waited for by the
comparing thread. All work of the device is on one stream, in the order it was launched in, so memory that is let go
here is not reused before it has been read; the thread touches host memory only.

A network as it is evaluated: BatchNorm uses its statistics, and its loss has all the terms that of training has.

Auxiliary maps count in the training loss, so they are computed where a loss is asked for; without them the two curves
could not be compared. The published code leaves them out, and so does a loss that is faithful to it.
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
from yolofast.detect.accumulator import Evaluated, MetricAccumulator
from yolofast.detect.predictor import Thresholds, to_validate
from yolofast.evaluate.nms import BegunSuppression
from yolofast.image_index import ImageIndex
from yolofast.loss.criterion import Criterion
from yolofast.model.network import Network
from yolofast.precision import Precision
from yolofast.structures import Batch, Detections

Compare = Callable[[int, Batch, list[Detections]], None]

_MOST_WAITING = 8
"""Batches that may wait to be compared: each holds its images."""


class LateComparison:
    """`compare` is called in another thread, batch by batch; what it raises is raised here."""

    def __init__(self, compare: Compare) -> None:
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
    """Every module is left in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    if criterion is not None and model.layout.auxiliary and not getattr(criterion, "faithful", False):
        for module in model.modules():  # only containers, graphs and heads ask: whoever changes with use stays as it is
            module.training = not isinstance(module, nn.modules.batchnorm._BatchNorm | nn.modules.dropout._DropoutNd)
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


__all__ = ["Evaluated", "OnBatch", "accumulate_metrics", "add_found", "evaluate", "in_original"]

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
    tally = accumulate_metrics(
        model, batches, index, precision, criterion=criterion, thresholds=thresholds, predict=predict, keep=keep,
        on_batch=on_batch,
    )  # fmt: skip
    return tally.result(v5_metric=v5_metric)


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
    """What is found in these batches, which may be a part of the split's, compared with the labels.

    `predict`, if given, is asked for predictions instead of `model` alone (`Predictor`); there is no loss then. `keep`:
    the tally holds the detections themselves too. `thresholds` are by default the network's own (`to_validate`).
    `on_batch` is called in another thread, in the order of the batches.
    """
    assert criterion is None or predict is None
    chosen = thresholds or to_validate(model)
    tally = MetricAccumulator(len(index.names), keep=keep)
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


def add_found(tally: MetricAccumulator, index: ImageIndex, batch: Batch, found: list[Detections]) -> list[Detections]:
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
