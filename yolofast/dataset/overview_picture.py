"""One picture of a split's labels: boxes per class, where their centres are, and how wide and high they are."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolofast.errors import UserError
from yolofast.files.atomic_file import write_output
from yolofast.image_index import ImageIndex

_FORMATS = (".jpg", ".jpeg", ".png")
_MOST_NAMED_CLASSES = 40
_MOST_OUTLINES = 500
_BINS = 50


def draw_overview(index: ImageIndex, path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise UserError(f"cannot draw into {path.name!r}", where=path, fix=f"end the name in {', '.join(_FORMATS)}")
    encoded = cv2.imencode(path.suffix.lower(), _render(index))[1]
    return write_output(path, encoded.tobytes())


def _render(index: ImageIndex) -> Any:
    # Imported here, because it takes longer than all of the check of a small data set.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 10), dpi=100, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    classes, outlines, centres, sizes = figure.subplots(2, 2).ravel()
    _draw_classes(classes, index)
    _draw_outlines(outlines, index)
    _draw_map(centres, index.boxes[:, :2], ("centre x", "centre y"), "centres, as shares of the image")
    centres.invert_yaxis()  # as in the image
    _draw_map(sizes, index.boxes[:, 2:], ("width", "height"), "sizes, as shares of the image")
    canvas.draw()
    return cv2.cvtColor(np.asarray(canvas.buffer_rgba()), cv2.COLOR_RGBA2BGR)


def _draw_classes(axes: Any, index: ImageIndex) -> None:
    nc = len(index.names)
    axes.bar(np.arange(nc), np.bincount(index.labels, minlength=nc), color="tab:blue")
    axes.set_title(f"{len(index.labels):,} boxes in {len(index):,} images")
    axes.set_ylabel("boxes")
    if nc <= _MOST_NAMED_CLASSES:
        names = [name.replace("$", r"\$") for name in index.names]  # which would start a formula
        axes.set_xticks(np.arange(nc), names, rotation=90, fontsize=8)
    else:
        axes.set_xlabel("class")


def _draw_outlines(axes: Any, index: ImageIndex) -> None:
    """Boxes moved to one centre, evenly chosen from the split: their shapes at a glance."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    chosen = np.unique(np.linspace(0, max(len(index.boxes) - 1, 0), _MOST_OUTLINES).astype(int))
    boxes = [Rectangle((-w / 2, -h / 2), w, h) for w, h in index.boxes[chosen[: len(index.boxes)], 2:]]
    axes.add_collection(PatchCollection(boxes, facecolor="none", edgecolor="tab:blue", alpha=0.3, linewidth=0.5))
    axes.set(xlim=(-0.5, 0.5), ylim=(-0.5, 0.5), aspect="equal", title="shapes, laid on one centre")


def _draw_map(axes: Any, points: Any, labels: tuple[str, str], title: str) -> None:
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=_BINS, range=((0, 1), (0, 1)))
    axes.imshow(np.sqrt(counts.T), origin="lower", extent=(0, 1, 0, 1), cmap="viridis", aspect="equal")
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
