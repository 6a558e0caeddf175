"""The whole file, as it is: pictures in, detections out, with the thresholds and the suppression it holds.

`network.py` asks only for predictions, so that a caller's thresholds count. Here nothing is taken apart. So this is
what a program without yolofast gets: what `export` compares, `serve` answers and `benchmark` times.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import DETECTIONS, END2END, IMAGE, IMAGES, PREDICTIONS, ExportFacts
from yolofast.export.runtimes.contract import Session
from yolofast.media.pictures import Fitted, fit
from yolofast.pixels import Image
from yolofast.structures import Detections


def detect(session: Session, pictures: Sequence[Image]) -> list[Detections]:
    """Of pictures `[H, W, 3]` of blue, green, red, of any sizes: boxes are in their pixels. Batches are the file's."""
    facts = session.facts
    if facts.image_order:
        return [one for picture in pictures for one in of_outputs(session.run(taken_whole(picture, facts)), facts)]
    fitted = [fit(one, facts.shape, facts.stride, facts.inputs) for one in pictures]
    found: dict[int, Detections] = {}
    for some in batches(fitted, facts.batch or len(pictures)):
        levels = np.concatenate([network_input(fitted[place].input, facts) for place in some])
        seen = of_outputs(session.run({IMAGES: filled(prepared(levels, facts), facts.batch or len(some))}), facts)
        found |= {
            place: in_original(one, fitted[place], pictures[place])
            for place, one in zip(some, seen[: len(some)], strict=True)
        }
    return [found[place] for place in range(len(pictures))]


def batches(fitted: Sequence[Fitted], most: int) -> Iterator[list[int]]:
    """Places of images of one shape each, at most so many."""
    places_of: dict[tuple[int, ...], list[int]] = {}
    for place, one in enumerate(fitted):
        places_of.setdefault(one.input.shape, []).append(place)
    for places in places_of.values():
        yield from (places[start : start + most] for start in range(0, len(places), most))


def taken_whole(picture: Image, facts: ExportFacts) -> dict[str, Array]:
    """For a file that prepares its images itself."""
    return {IMAGE: np.ascontiguousarray(picture[..., ::-1] if facts.image_order == "rgb" else picture)}


def network_input(fitted: Image, facts: ExportFacts) -> Array:
    """`[1, 3, H, W]` levels."""
    ordered = fitted[..., ::-1] if facts.inputs.rgb else fitted
    return np.ascontiguousarray(ordered.transpose(2, 0, 1)[None])


def prepared(levels: Array, facts: ExportFacts) -> Array:
    """In the range the network takes."""
    scaled: Array = levels.astype(np.float32) / np.float32(facts.inputs.divisor)
    return scaled


def filled(images: Array, batch: int) -> Array:
    """Up to the batch the file was made for."""
    missing = batch - len(images)
    return images if not missing else np.concatenate((images, np.zeros_like(images[:1]).repeat(missing, axis=0)))


def in_original(found: Detections, fitted: Fitted, picture: Image) -> Detections:
    height, width = picture.shape[:2]
    return found.in_original(fitted.place.gain, fitted.place.pad, (width, height))


def of_outputs(outputs: Mapping[str, Array], facts: ExportFacts) -> list[Detections]:
    """Of each image of the batch, in pixels of the file's boxes; predictions are suppressed with its thresholds."""
    lacking = [name for name in facts.outputs if name not in outputs]
    if lacking:
        what = f"the file gives no {lacking[0]}, although its metadata name it"
        raise UserError(what, fix="export it again: it is damaged")
    if facts.outputs == (PREDICTIONS,):
        chosen = Thresholds(
            conf=facts.conf, iou=facts.iou, multi_label=False, agnostic=facts.agnostic, max_detections=facts.max_det
        )
        return chosen.detections(torch.from_numpy(outputs[PREDICTIONS]))
    if facts.outputs == END2END:
        counts, boxes, scores, labels = (outputs[name] for name in END2END)
        return [
            _detections(boxes[row, :count], scores[row, :count], labels[row, :count])
            for row, count in enumerate(counts[:, 0].tolist())
        ]
    return [_of_rows(rows[rows[:, 4] > 0]) for rows in outputs[DETECTIONS]]


def _of_rows(rows: Array) -> Detections:
    return _detections(rows[:, :4], rows[:, 4], rows[:, 5])


def _detections(boxes: Array, scores: Array, labels: Array) -> Detections:
    return Detections(boxes.astype(np.float32), scores.astype(np.float32), labels.astype(np.int64))
