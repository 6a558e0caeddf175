"""What an evaluation of the best weights leaves in a run's folder, in the detail a report needs.

`evaluation.json` holds the scores per class, curves at 101 recalls, and the cells of the confusion matrix that are not
0, because most are. `samples/` holds the images the weights do worst on, with all boxes: right, wrong or missed. They
are drawn as the evaluation found them, so pictures, captions and the order of the images agree.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.detect.accumulator import Evaluated
from yolofast.evaluate.image_faults import ImageFaults, Judged, judge
from yolofast.evaluate.matching import ground_truth
from yolofast.evaluate.result_files import per_class_table
from yolofast.evaluate.v7_metrics import GRID
from yolofast.files.atomic_file import write_whole
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import read_picture
from yolofast.pixels import Image
from yolofast.runs.layout import FILES, epoch_in_json, numbered

Box = npt.NDArray[np.float32]
Colour = tuple[int, int, int]
_RECALLS = np.linspace(0, 1, 101)
_MOST_CLASSES_WITH_CURVES = 200
_LONG_SIDE = 520
_MOST_ENLARGED = 4
"""Names would hide a small picture."""
_QUALITY = 82
_FONT_SIZE = 0.45
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# Blue, green, red. Blue, orange and magenta differ for people who do not see red or green; words say it too.
_RIGHT, _WRONG, _MISSED = (178, 114, 0), (0, 149, 230), (140, 40, 215)


def save_scores(folder: Path, found: Evaluated, names: Sequence[str]) -> None:
    content = json.dumps(scores_of(found, names), separators=(",", ":"), allow_nan=False) + "\n"
    write_whole(folder / FILES.evaluation, content.encode())


def scores_of(found: Evaluated, names: Sequence[str]) -> dict[str, Any]:
    metrics, faults, confusion = found.metrics, found.faults.per_image(), found.confusion.counts
    per_class = {str(row.id): _rounded(asdict(row)) for row in per_class_table(metrics, names)}
    return {
        **epoch_in_json("epoch", found.epoch),
        "images": metrics.images,
        "images_with_faults": int((faults[:, 1:].sum(axis=1) > 0).sum()),
        "map50": metrics.map50,
        "map": metrics.map,
        "precision": metrics.mean_precision,
        "recall": metrics.mean_recall,
        "confidence": metrics.confidence,
        "names": list(names),
        "per_class": per_class,
        "confusion": [[int(r), int(c), int(confusion[r, c])] for r, c in np.argwhere(confusion)],
        "precision_at_recall": _curves(found),
    }


def _curves(found: Evaluated) -> dict[str, list[float]]:
    """By class number, and of all classes together as `mean`."""
    rows = found.metrics.curves.precision_at_recall
    if not len(rows):
        return {}
    curves = {"mean": rows.mean(axis=0)}
    if len(rows) <= _MOST_CLASSES_WITH_CURVES:
        curves |= {str(label): row for label, row in zip(found.metrics.classes.tolist(), rows, strict=True)}
    return {name: np.interp(_RECALLS, GRID, row).round(4).tolist() for name, row in curves.items()}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def save_samples(folder: Path, index: ImageIndex, faults: ImageFaults, epoch: int | None = None) -> None:
    """The worst images into `samples/` of a run's folder; what they show, after which epoch (from 0), into its list."""
    place = folder / FILES.samples
    place.mkdir(exist_ok=True)
    # First: an interrupt leaves pictures unlisted, none with another's caption.
    (place / FILES.samples_list).unlink(missing_ok=True)
    rows = []
    for number, image in enumerate(faults.worst()):
        path = index.path(image.place)
        judged = judge(image.counted, ground_truth(index, [image.place])[0])
        name = numbered(FILES.sample, number, 2)
        write_whole(place / name, drawn(read_picture(path), judged, index.names))
        counts = {"right": len(judged.right), "wrong": len(judged.wrong), "missed": len(judged.missed.labels)}
        rows.append({"file": name, "image": path.name, **epoch_in_json("epoch", epoch), **counts})
    write_whole(place / FILES.samples_list, (json.dumps(rows, indent=1) + "\n").encode())


def drawn(picture: Image, judged: Judged, names: Sequence[str]) -> bytes:
    """A JPEG: what is right in thin blue, what is not there in orange, what was missed in magenta and named so."""
    scale = min(_LONG_SIDE / max(picture.shape[:2]), _MOST_ENLARGED)
    size = [max(1, round(side * scale)) for side in picture.shape[1::-1]]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas: Image = np.ascontiguousarray(cv2.resize(picture, size, interpolation=how))
    named: set[tuple[int, int]] = set()
    for found, colour, line in ((judged.right, _RIGHT, 1), (judged.wrong, _WRONG, 2)):
        best_last = zip(found.boxes[::-1], found.labels[::-1].tolist(), found.scores[::-1].tolist(), strict=True)
        for box, label, score in best_last:  # so that it is on top
            _draw(canvas, box * scale, f"{names[label]} {score:.2f}", colour, line, named)
    for box, label in zip(judged.missed.boxes, judged.missed.labels.tolist(), strict=True):
        _draw(canvas, box * scale, f"missed: {names[label]}", _MISSED, 2, named)
    return cv2.imencode(".jpg", canvas, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()


def _draw(canvas: Image, box: Box, text: str, colour: Colour, line: int, named: set[tuple[int, int]]) -> None:
    """A name goes below the one that has its place already: an evaluation gives a box several classes."""
    left, top, right, bottom = (int(value) for value in box.round())
    cv2.rectangle(canvas, (left, top), (right, bottom), colour, line, cv2.LINE_AA)
    (width, height), _ = cv2.getTextSize(text, _FONT, _FONT_SIZE, 1)
    base = min(max(top, height + 5), canvas.shape[0])
    start = max(0, min(left, canvas.shape[1] - width - 2))
    while (left, base) in named and base + height + 5 <= canvas.shape[0]:
        base += height + 5
    named.add((left, base))
    cv2.rectangle(canvas, (start, base - height - 5), (start + width + 2, base), colour, cv2.FILLED)
    cv2.putText(canvas, text, (start + 1, base - 3), _FONT, _FONT_SIZE, (255, 255, 255), 1, cv2.LINE_AA)
