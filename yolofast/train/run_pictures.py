"""The pictures of a run's folder: labels, training batches, curves (`results.png`), and what the network predicts.

Batches are only copied while they are trained on, and drawn when the epoch is over, so neither speed nor result of the
training depends on pictures. One that cannot be drawn costs a warning and no more.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from yolofast.evaluate.mosaic_picture import as_detections, draw_boxes, save_mosaics
from yolofast.evaluate.plots import encoded, save_plots
from yolofast.evaluate.v7_metrics import GRID
from yolofast.files.atomic_file import write_whole
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import read_picture
from yolofast.model.network import Network
from yolofast.pixels import Image
from yolofast.precision import Precision
from yolofast.runs.layout import (
    EPOCH,
    FILES,
    MOTION_METRICS,
    TRAIN_LOSS,
    VAL_LOSS,
    columns_from,
    columns_of,
    numbered,
    terms_in,
)  # fmt: skip
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


def panels_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The columns to draw above and below: losses of training above those of validation, then the metrics."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    terms = terms_in(names)
    drawn = [column.name for _, column in columns_of(names) if column.drawn and column.source == "metric"]
    half = (len(drawn) + 1) // 2
    above, below = ([pattern.of_term(term) for term in terms] for pattern in (TRAIN_LOSS, VAL_LOSS))
    return above + drawn[:half], below + drawn[half:]


def curves_picture(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The picture, from the rows of `results.csv`; what was not measured in an epoch is left out of the curve."""
    # Imported here, because a run without pictures has no use for it. Without pyplot nothing needs a display, and no
    # figure has to be closed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    above, below = panels_of(rows)
    across, scores = len(above), {column.name for column in (*columns_from("metric"), *MOTION_METRICS)}
    figure = Figure(figsize=(3 * across, 6), dpi=120, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    panels = figure.subplots(2, across).ravel()
    for empty in panels[across + len(below) :]:  # of an odd number of metrics
        empty.set_axis_off()
    for panel, name in zip(panels, above + below, strict=False):
        measured = [(row[EPOCH.name] + 1, row[name]) for row in rows if isinstance(row.get(name), int | float)]
        epochs, values = zip(*measured, strict=True) if measured else ((), ())
        panel.plot(epochs, values, marker="." if len(values) < 100 else None, linewidth=2, color="tab:blue")
        panel.set_title(name.replace("(B)", "").replace("(M)", ""), fontsize=11)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        if name in scores:
            panel.set_ylim(0, max(1.05 * max(values, default=0.0), 0.01))
    figure.supxlabel("epoch", fontsize=10)
    return encoded(canvas)


Say = Callable[[str], None]
_BATCHES = 3
_IMAGES_OF_A_BATCH = 16
_PREDICTIONS = 9
_USUAL_CONFIDENCE, _LEAST_CONFIDENCE = 0.25, 0.05


class RunPictures:
    """Draws into `folder`; nothing if that is None."""

    def __init__(
        self, folder: Path | None = None, names: Sequence[str] = (), inputs: InputConvention | None = None,
        say: Say = lambda text: None,
    ) -> None:  # fmt: skip
        self._folder, self._names, self._say = folder, names, say
        self._inputs = inputs or InputConvention()
        self._copies: list[Batch] = []
        self._warned = False

    def labels(self, index: ImageIndex) -> None:
        self._draw(FILES.labels, lambda path: draw_overview(index, path))

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
        self._draw(FILES.curves, lambda path: write_whole(path, curves_picture(rows)))

    def scores(self, found: Evaluated) -> None:
        """Curves over confidence and recall, and the confusion matrix."""
        names = self._names
        self._draw(
            FILES.precision_recall_curve, lambda path: save_plots(path.parent, found.metrics, found.confusion, names)
        )

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
            if not self._warned:
                self._warned = True
                self._say(f"warning: {what} could not be drawn, the run continues: {type(error).__name__}: {error}")
            return False
        return True

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
