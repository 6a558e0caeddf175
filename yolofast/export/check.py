"""An exported file against its network, on images: the same predictions, the same detections, the same AP.

A file is only kept if it is the same within tolerance. The tolerance of fp32 is a few times what two libraries differ
by that both compute in fp32. In fp16 the yardstick is what torch's own fp16 differs by, measured each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from yolofast.detect.accumulator import MetricAccumulator
from yolofast.detect.networks import TrainedModel
from yolofast.detect.predictor import Predictor, to_validate
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.contract import Array, DecodedNetwork
from yolofast.export.formats.facts import IMAGES
from yolofast.export.runtimes.contract import Session
from yolofast.export.runtimes.detections import (
    batches,
    filled,
    in_original,
    network_input,
    of_outputs,
    prepared,
    taken_whole,
)
from yolofast.export.runtimes.network import ExportedNetwork
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import fit
from yolofast.pixels import Image
from yolofast.precision import Precision
from yolofast.structures import Detections

_SAME_PLACE = 0.9
"""IoU."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    boxes: float
    """Pixels, for a box of up to 100 pixels; in proportion for larger ones."""
    scores: float
    matched_scores: float
    """By which the scores of two detections that are one may differ."""
    unmatched: float
    """Share of the detections that may have no counterpart."""
    ap: float


_COUNTED_SCORE, _COUNTED_ROWS = 0.01, 100
"""Predictions whose boxes are compared: those above this score, and at least so many of an image."""
EXACT = Tolerance(boxes=0.02, scores=2e-4, matched_scores=2e-4, unmatched=0.0, ap=0.001)
PREPARED_INSIDE = replace(EXACT, matched_scores=0.03, unmatched=0.05)
INT8 = Tolerance(boxes=np.inf, scores=np.inf, matched_scores=1.0, unmatched=1.0, ap=0.01)
"""AP alone decides: single predictions move by what 8 bits cannot tell apart."""
HALF = replace(EXACT, matched_scores=0.03, unmatched=0.05, ap=0.01)
"""Boxes and scores: twice what torch's own fp16 differs by, on the same images. No fixed bound would mean anything:
for YOLOX-nano on COCO that is 28 px per 100 px, of predictions that are no detections."""
_HALF_MARGIN = 2.0
_TOGETHER = 4
"""Images of a call, of a file that takes any number: one alone would not show that it mixes them up."""


@dataclass
class ExportComparison:
    """What was found, image by image."""

    tolerance: Tolerance
    images: int = 0
    worst_box: float = 0.0
    worst_score: float = 0.0
    detections: int = 0
    matched: int = 0
    at_threshold: int = 0
    """Without a counterpart, but so near the threshold that rounding decides."""
    by_rounding: int = 0
    """Without a counterpart, although predictions are equal within tolerance and the file suppresses its own exactly as
    yolofast does: two scores or overlaps are so nearly equal that the last digit decides."""
    detection_boxes: float = 0.0
    """The worst difference of matched detections, in pixels of the file's output."""
    ap: tuple[float, float] | None = None
    """mAP50-95 of the network and of the file."""
    remarks: list[str] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str, str]]:
        """What, how much, and how much is allowed."""
        allowed = self.tolerance
        rows = [
            ("images", str(self.images), ""),
            ("boxes, worst difference (px per 100 px)", f"{self.worst_box:.2g}", _bound(allowed.boxes)),
            ("scores, worst difference", f"{self.worst_score:.2g}", _bound(allowed.scores)),
        ]
        if self.detections:
            words = f"{self.matched:,} of {self.detections:,}"
            words += f", {self.at_threshold} at the threshold" if self.at_threshold else ""
            words += f", {self.by_rounding} decided by rounding" if self.by_rounding else ""
            rows.append(
                (
                    "detections matched one to one",
                    words,
                    f"{allowed.unmatched:.0%} missing" if allowed.unmatched < 1 else "",
                )
            )
            rows.append(("detections, worst difference (px)", f"{self.detection_boxes:.2g}", ""))
        if self.ap is not None:
            rows.append(("mAP50-95 of the network, of the file", "{:.4f}, {:.4f}".format(*self.ap), f"{allowed.ap:g}"))
        return [*rows, *(("remark", remark, "") for remark in self.remarks)]

    def fault(self) -> str:
        """What is outside the tolerance, in words; empty if nothing is."""
        allowed = self.tolerance
        if not self.worst_box <= allowed.boxes:  # NaN is none
            return f"boxes differ by {self.worst_box:.3g} px per 100 px, {allowed.boxes:g} is allowed"
        if not self.worst_score <= allowed.scores:
            return f"scores differ by {self.worst_score:.3g}, {allowed.scores:g} is allowed"
        missing = self.detections - self.matched - self.at_threshold - self.by_rounding
        if missing > allowed.unmatched * self.detections:
            return f"{missing} of {self.detections} detections have no counterpart"
        if self.ap is not None and not self._lost(*self.ap) <= allowed.ap:
            return f"mAP50-95 is {self.ap[1]:.4f}, that of the network {self.ap[0]:.4f}"
        return ""

    def _lost(self, before: float, after: float) -> float:
        """What int8 gains by chance is no fault."""
        return before - after if self.tolerance is INT8 else abs(before - after)


def _bound(number: float) -> str:
    return f"{number:.2g}" if np.isfinite(number) else ""


@torch.no_grad()
def compare(
    trained: TrainedModel, session: Session, images: Sequence[Image], index: ImageIndex | None = None
) -> ExportComparison:
    """`index` has the labels of the images, in their order, if there are any."""
    facts = session.facts
    half = DecodedNetwork(trained.model, half=True) if facts.precision == "fp16" else None
    result = ExportComparison(
        INT8 if facts.precision == "int8" else HALF if half else PREPARED_INSIDE if facts.image_order else EXACT
    )
    yardstick = ExportComparison(HALF)
    precision = Precision.choose("fp32", torch.device("cpu"))
    network, file = Predictor([trained.model], precision), Predictor([ExportedNetwork(session)], precision)
    chosen = Thresholds(
        conf=facts.conf, iou=facts.iou, multi_label=False, agnostic=facts.agnostic, max_detections=facts.max_det
    )
    counted = to_validate(trained.model)
    accumulators = MetricAccumulator(len(facts.names)), MetricAccumulator(len(facts.names))
    fitted = [fit(image, facts.shape, facts.stride, facts.inputs) for image in images]
    for places in batches(fitted, facts.batch or _TOGETHER):
        levels = torch.from_numpy(np.concatenate([network_input(fitted[place].input, facts) for place in places]))
        given = _own_detections(session, levels.numpy(), [images[place] for place in places])
        by_file = file(levels)
        for row, place in enumerate(places):
            ours, theirs = network(levels[row : row + 1]), by_file[row : row + 1]
            _compare_predictions(result, ours.numpy()[0], theirs.numpy()[0])
            if half is not None:
                rounded = half(trained.model.inputs.as_input(levels[row : row + 1]))
                _compare_predictions(yardstick, ours.numpy()[0], rounded.numpy()[0])
            if facts.nms != "efficientnms":
                (wanted,) = chosen.detections(ours)
                (by_us,) = chosen.detections(theirs)
                whole = given[row] if given else by_us
                if facts.image_order:
                    wanted = in_original(wanted, fitted[place], images[place])
                excused = result.tolerance == EXACT and _equal(by_us, whole)
                _match(result, wanted, whole, facts.conf, excused=excused)
            if index is not None:
                for accumulator, predictions in zip(accumulators, (ours, theirs), strict=True):
                    (one,) = counted.detections(predictions)
                    accumulator.add(index, np.array([place]), [in_original(one, fitted[place], images[place])])
            result.images += 1
    if index is not None:
        before, after = (float(accumulator.result().metrics.map) for accumulator in accumulators)
        result.ap = before, after
    if half is not None:
        boxes, scores = (max(_HALF_MARGIN * one, EXACT.boxes) for one in (yardstick.worst_box, yardstick.worst_score))
        result.tolerance = replace(result.tolerance, boxes=boxes, scores=scores)
        result.remarks.append("boxes and scores: twice what torch's own fp16 differs by is allowed")
    if facts.nms == "onnx" and not result.detections:
        result.remarks.append(
            "nothing was found in these images, so the suppression inside was not compared; --data has other images"
        )
    if facts.nms == "efficientnms":
        result.remarks.append(
            "EfficientNMS_TRT runs in TensorRT only: what it is given was compared, not what it gives"
        )
    return result


def _own_detections(session: Session, levels: Array, images: Sequence[Image]) -> list[Detections]:
    """What the whole file gives of a batch, in pixels of its boxes; nothing if it suppresses nothing that runs here."""
    facts = session.facts
    if facts.nms != "onnx":
        return []
    if facts.image_order:
        return [one for image in images for one in of_outputs(session.run(taken_whole(image, facts)), facts)]
    feed = {IMAGES: filled(prepared(levels, facts), facts.batch or len(levels))}
    return of_outputs(session.run(feed), facts)[: len(images)]


def _compare_predictions(result: ExportComparison, ours: Array, theirs: Array) -> None:
    if ours.shape != theirs.shape:
        raise UserError(f"the file predicts {theirs.shape}, the network {ours.shape}", fix="report this as a defect")
    best = ours[:, 4] * (ours[:, 5:].max(1) if ours.shape[1] > 6 else 1.0)
    count = max(int((best > _COUNTED_SCORE).sum()), min(_COUNTED_ROWS, len(best)))
    rows = np.argpartition(-best, count - 1)[:count]
    size = np.maximum(ours[rows, 2:4].max(1, keepdims=True) / 100, 1.0)
    box = (np.abs(ours[rows, :4] - theirs[rows, :4]) / size).max()
    result.worst_box = float(np.maximum(result.worst_box, box))  # NaN stays
    result.worst_score = float(np.maximum(result.worst_score, np.abs(ours[:, 4:] - theirs[:, 4:]).max()))


def _equal(ours: Detections, given: Detections) -> bool:
    """Suppressed alike, of the same predictions."""
    if len(ours) != len(given) or not (ours.labels == given.labels).all():
        return False
    return np.allclose(ours.scores, given.scores, atol=1e-6) and np.allclose(ours.boxes, given.boxes, atol=1e-3)


def _match(result: ExportComparison, wanted: Detections, given: Detections, conf: float, *, excused: bool) -> None:
    """Each with one of the other, best first; what has none counts once. `excused`: it can only be rounding."""
    free = np.ones(len(given), bool)
    lost: list[float] = []
    for box, score, label in zip(wanted.boxes, wanted.scores, wanted.labels, strict=True):
        near = np.abs(given.scores - score) <= result.tolerance.matched_scores
        overlap = np.where(free & near & (given.labels == label), _iou(box, given.boxes), 0.0)
        place = int(overlap.argmax()) if len(overlap) else 0
        if len(overlap) and overlap[place] >= _SAME_PLACE:
            free[place] = False
            result.matched += 1
            result.detection_boxes = max(result.detection_boxes, float(np.abs(given.boxes[place] - box).max()))
        else:
            lost.append(float(score))
    lost += given.scores[free].tolist()
    result.detections += len(wanted) + int(free.sum())
    near_threshold = sum(score - conf <= min(result.tolerance.matched_scores, HALF.matched_scores) for score in lost)
    result.at_threshold += near_threshold
    result.by_rounding += (len(lost) - near_threshold) * excused


def _iou(box: Array, others: Array) -> Array:
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = (high - low).clip(0).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1) + (box[2:] - box[:2]).prod()
    found: Array = (shared + 1e-9) / (areas - shared + 1e-9)
    return found
