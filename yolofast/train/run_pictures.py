"""The pictures of a run's folder: labels, training batches, curves (`results.png`), and what the network predicts.

Batches are only copied while they are trained on, and drawn when the epoch is over, so neither speed nor result of the
training depends on pictures. Where a GPU trains, charts are drawn by processes of their own (`files/helper.py`): they
take seconds, in which the first step could be captured, or the prompt be back. One that cannot be drawn costs a warning
and no more.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from yolofast.dataset.overview_picture import draw_overview
from yolofast.detect.accumulator import Evaluated
from yolofast.detect.detector import ImageDetector
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.evaluate.drawing import draw_course
from yolofast.evaluate.mosaic_picture import as_detections, draw_boxes, save_mosaics
from yolofast.evaluate.plots import plots_of
from yolofast.evaluate.v7_metrics import GRID
from yolofast.files.atomic_file import write_whole
from yolofast.files.helper import Helper
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import read_picture
from yolofast.model.network import Network
from yolofast.pixels import Image
from yolofast.precision import Precision
from yolofast.runs.layout import FILES, numbered
from yolofast.structures import Batch, Detections, InputConvention, Targets

_LONGEST_SIDE = 1920
_LEAST_SIDE, _MOST_SIDE = 240, 640
"""Of a tile: on smaller ones names would hide the image."""
_GREY = 114


def picture_grid(images: Sequence[Image], boxes: Sequence[Detections], names: Sequence[str], *, scores: bool) -> bytes:
    """Images [height, width, 3] of blue, green and red, of any size, each made to fit a square."""
    columns = math.ceil(math.sqrt(len(images)))
    rows = -(-len(images) // columns)
    largest = max(max(image.shape[:2]) for image in images)
    side = min(_MOST_SIDE, _LONGEST_SIDE // columns, max(largest, _LEAST_SIDE))
    picture = np.full((rows * side, columns * side, 3), _GREY, np.uint8)
    for place, (image, found) in enumerate(zip(images, boxes, strict=True)):
        # Scaled first, so that lines and letters keep their size.
        scale = side / max(image.shape[:2])
        height, width = (min(max(round(length * scale), 1), side) for length in image.shape[:2])
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        small: Image = np.asarray(cv2.resize(image, (width, height), interpolation=how), np.uint8)
        draw_boxes(small, found, scale, names, scores=scores)
        top, left = place // columns * side, place % columns * side
        picture[top : top + height, left : left + width] = small
    return cv2.imencode(".jpg", picture)[1].tobytes()


def as_pictures(images: Tensor, inputs: InputConvention) -> list[Image]:
    """A batch's images, as levels or as the network takes them, the way OpenCV has them."""
    if images.dtype != torch.uint8:
        images = (images.float() * inputs.divisor).round().clamp(0, 255).to(torch.uint8)
    blue_first = images.flip(1) if inputs.rgb else images
    return [np.ascontiguousarray(image) for image in blue_first.permute(0, 2, 3, 1).cpu().numpy()]


Say = Callable[[str], None]
_BATCHES = 3
_IMAGES_OF_A_BATCH = 16
_PREDICTIONS = 9
_USUAL_CONFIDENCE, _LEAST_CONFIDENCE = 0.25, 0.05
_DRAWS_LABELS, _DRAWS_CHARTS = "yolofast.dataset.overview_picture", "yolofast.evaluate.drawing"
_HELPERS = 3
"""At the end: for the course, for curves, and for the confusion matrix, which take about as long as one another."""


class RunPictures:
    """Draws into `folder`; nothing if that is None."""

    def __init__(
        self, folder: Path | None = None, names: Sequence[str] = (), inputs: InputConvention | None = None,
        say: Say = lambda text: None, *, apart: bool = False,
    ) -> None:  # fmt: skip
        """`apart`: charts are drawn by other processes, until `finish`."""
        self._folder, self._names, self._say, self._apart = folder, names, say, apart
        self._helpers: list[Helper] = []
        self._inputs = inputs or InputConvention()
        self._copies: list[Batch] = []
        self._warned = False

    def labels(self, index: ImageIndex) -> None:
        self._charts({FILES.labels: partial(draw_overview, index)})

    def trained_on(self, epoch: int, number: int, batch: Batch) -> None:
        """Keeps the first batches of a run. Never waits: on a GPU the copy is queued behind the work under way."""
        if self._folder is not None and epoch == 0 and number < _BATCHES:
            self._copies.append(copy_of_first(batch, _IMAGES_OF_A_BATCH))

    def epoch_over(self) -> None:
        """Draws the copies; called when the device has finished the epoch."""
        for number, batch in enumerate(self._copies):
            self._draw(numbered(FILES.train_batch, number), partial(self._draw_batch, batch))
        self._copies = []

    def curves(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._charts({FILES.curves: partial(draw_course, rows=rows)})

    def scores(self, found: Evaluated) -> None:
        """Curves over confidence and recall, and the confusion matrix."""
        self._charts(plots_of(found.metrics, found.confusion, self._names))

    def validation(self, detector: ImageDetector, batches: Iterable[Batch], index: ImageIndex) -> None:
        """The first batches twice: with their true boxes, and with those found."""
        some = (copy_of_first(batch, _IMAGES_OF_A_BATCH) for batch in islice(batches, _BATCHES))

        def draw(number: int, batch: Batch, found: list[Detections]) -> None:
            assert self._folder is not None
            save_mosaics(self._folder, number, batch.images, batch.targets, found, self._names)

        model, precision = detector.predictor.models[0], detector.precision
        self._draw(
            numbered(FILES.val_batch_pred, 0),
            lambda _: accumulate_metrics(model, some, index, precision, on_batch=draw),
        )

    def predictions(self, detector: ImageDetector, index: ImageIndex, conf: float) -> None:
        """Images from all over the split with what the detector sees in them."""
        self._draw(FILES.predictions, lambda path: self._draw_predictions(path, detector, index, conf))

    def boxes_after(
        self, epoch: int, model: Network, precision: Precision, batches: Iterable[Batch], index: ImageIndex
    ) -> Path | None:
        """What the model sees in the first images to evaluate on; the picture, if it could be drawn."""
        some = (copy_of_first(batch, _IMAGES_OF_A_BATCH) for batch in islice(batches, 1))

        def draw(path: Path) -> None:
            path.parent.mkdir(exist_ok=True)
            accumulate_metrics(model, some, index, precision, on_batch=lambda _, *found: self._draw_found(path, *found))

        return self._draw(f"{FILES.predictions_folder}/{numbered(FILES.predictions_of_epoch, epoch + 1, 3)}", draw)

    def end_is_near(self) -> None:
        """Other processes get ready while the last evaluation runs."""
        if self._folder is not None and self._apart:
            self._help(_HELPERS)

    def finish(self) -> None:
        """Waits for what other processes draw."""
        for helper in self._helpers:
            for name, why in helper.failures().items():
                self._warn(name, why)
        self.close()

    def close(self) -> None:
        for helper in self._helpers:
            helper.close()
        self._helpers = []

    def _charts(self, draw: Mapping[str, Callable[[Path], object]]) -> None:
        """Each into its file of the folder, here or by the helper that was given the least."""
        for name, chart in draw.items():
            if self._folder is not None and self._apart and self._help(1):
                given = partial(chart, self._folder / name)
                self.attempt(name, partial(min(self._helpers, key=lambda one: one.given).give, name, given))
            else:
                self._draw(name, chart)

    def _help(self, processes: int) -> bool:
        """Whether there are helpers; as many as asked for, if the system has room for them."""
        with suppress(OSError):
            while len(self._helpers) < processes:
                self._helpers.append(Helper([_DRAWS_LABELS, _DRAWS_CHARTS]))
        return bool(self._helpers)

    def _draw_batch(self, batch: Batch, path: Path) -> None:
        height, width = batch.images.shape[2:]
        boxes = as_detections(batch.targets, width, height)
        write_whole(path, picture_grid(as_pictures(batch.images, self._inputs), boxes, self._names, scores=False))

    def _draw_predictions(self, path: Path, detector: ImageDetector, index: ImageIndex, conf: float) -> None:
        chosen = np.unique(np.linspace(0, len(index) - 1, _PREDICTIONS).astype(int))
        images = [read_picture(index.path(int(image))) for image in chosen]
        found = detector.predict(images, conf=conf)
        write_whole(path, picture_grid(images, found, self._names, scores=True))

    def _draw_found(self, path: Path, batch: Batch, found: list[Detections]) -> None:
        likely = [one[one.scores > _USUAL_CONFIDENCE] for one in found]
        write_whole(path, picture_grid(as_pictures(batch.images, self._inputs), likely, self._names, scores=True))

    def attempt(self, what: str, draw: Callable[[], object]) -> bool:
        """Whether it worked. Only the first failure is reported: they mostly have one cause, such as a full disk."""
        try:
            draw()
        except Exception as error:  # noqa: BLE001 - no picture is worth a run
            self._warn(what, f"{type(error).__name__}: {error}")
            return False
        return True

    def _warn(self, what: str, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._say(f"warning: {what} could not be drawn, the run continues: {why}")

    def _draw(self, name: str, draw: Callable[[Path], object]) -> Path | None:
        if self._folder is None:
            return None
        path = self._folder / name
        return path if self.attempt(name, lambda: draw(path)) else None


def copy_of_first(batch: Batch, images: int) -> Batch:
    """The first images in memory of their own on the host; complete when the device has got there."""

    def copied(tensor: Any) -> Any:
        return tensor[:images].to("cpu", non_blocking=True, copy=True)

    targets = Targets(copied(batch.targets.boxes), copied(batch.targets.labels), copied(batch.targets.valid))
    gain, pad = (None if part is None else part[:images] for part in (batch.gain, batch.pad))
    return Batch(copied(batch.images), targets, batch.sources[:images], gain, pad)


def telling_confidence(found: Evaluated | None) -> float:
    """What a box must have to be shown: where F1 is best, so that a network at its beginnings shows something too."""
    if found is None or not len(found.metrics.curves.f1):
        return _USUAL_CONFIDENCE
    best = GRID[found.metrics.curves.f1.mean(axis=0).argmax()]
    return float(min(max(best, _LEAST_CONFIDENCE), _USUAL_CONFIDENCE))
