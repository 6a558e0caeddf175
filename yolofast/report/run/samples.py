"""Pictures of the validation images a detector does worst on, with every box that is right, wrong or missing.

What is drawn is what the evaluation found there, so pictures, captions and the order of the images agree; only the
pixels of these few are read again.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.evaluate.image_faults import ImageFaults, Judged, judge
from yolofast.evaluate.matching import ground_truth
from yolofast.files.atomic_file import write_whole
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import read_picture
from yolofast.pixels import Image
from yolofast.runs.layout import FILES, numbered
from yolofast.structures import Detections

_LONG_SIDE = 520
_MOST_ENLARGED = 4
"""Names would hide a small picture."""
_QUALITY = 82
_FONT_SIZE = 0.45
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# Blue, green, red. Blue, orange and magenta differ for people who do not see red or green; words say it too.
_RIGHT, _WRONG, _MISSED = (178, 114, 0), (0, 149, 230), (140, 40, 215)


def save_samples(folder: Path, index: ImageIndex, faults: ImageFaults, epoch: int | None = None) -> None:
    """The worst images into `samples/` of a run's folder, and what they show, after which epoch, into its list."""
    place = folder / FILES.samples
    place.mkdir(exist_ok=True)
    (place / FILES.samples_list).unlink(
        missing_ok=True
    )  # an interrupt leaves pictures unlisted, none with another's caption
    rows = []
    for number, image in enumerate(faults.worst()):
        path = index.path(image.place)
        judged = judge(image.counted, ground_truth(index, [image.place])[0])
        name = numbered(FILES.sample, number, 2)
        write_whole(place / name, drawn(read_picture(path), judged, index.names))
        rows.append({"file": name, "image": path.name, "epoch": epoch, **_counts(judged)})
    write_whole(place / FILES.samples_list, (json.dumps(rows, indent=1) + "\n").encode())


def drawn(picture: Image, judged: Judged, names: Sequence[str]) -> bytes:
    """A JPEG: what is right in thin blue, what is not there in orange, what was missed in magenta and named so."""
    scale = min(_LONG_SIDE / max(picture.shape[:2]), _MOST_ENLARGED)
    size = [max(1, round(side * scale)) for side in picture.shape[1::-1]]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas: Image = np.ascontiguousarray(cv2.resize(picture, size, interpolation=how))
    named: set[tuple[int, int]] = set()
    for box, label, score in _boxes(judged.right):
        _draw(canvas, box * scale, f"{names[label]} {score:.2f}", _RIGHT, 1, named)
    for box, label, score in _boxes(judged.wrong):
        _draw(canvas, box * scale, f"{names[label]} {score:.2f}", _WRONG, 2, named)
    for box, label in zip(judged.missed.boxes, judged.missed.labels.tolist(), strict=True):
        _draw(canvas, box * scale, f"missed: {names[label]}", _MISSED, 2, named)
    return cv2.imencode(".jpg", canvas, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()


def _boxes(found: Detections) -> Iterator[tuple[npt.NDArray[np.float32], int, float]]:
    """Best last, so that it is on top."""
    return zip(found.boxes[::-1], found.labels[::-1].tolist(), found.scores[::-1].tolist(), strict=True)


def _draw(
    canvas: Image,
    box: npt.NDArray[np.float32],
    text: str,
    colour: tuple[int, int, int],
    line: int,
    named: set[tuple[int, int]],
) -> None:
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


def _counts(judged: Judged) -> dict[str, int]:
    return {"right": len(judged.right), "wrong": len(judged.wrong), "missed": len(judged.missed.labels)}
