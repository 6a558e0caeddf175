"""Suppression and preparation of images, of plain ONNX operators, around a network that gives predictions.

Every runtime has these operators; those of one tool would tie the file to it. Suppression is exact: classes are kept
apart by rows of scores and not by moving the boxes of each class far away, which costs the boxes their last digits.

Axes: B images, N predictions, C classes, S boxes that suppression keeps, K detections per image.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from yolofast.augment.plan import FILL
from yolofast.export.formats.facts import DETECTIONS, END2END, IMAGE, IMAGES, PREDICTIONS, ExportFacts
from yolofast.extensions import needed

CONF, IOU, MAX_DET = "conf", "iou", "max_det"
"""Thresholds, which may be inputs too."""
_SCALE, _PAD, _LIMIT = "image/scale", "image/pad", "image/limit"
"""Of x, y, x, y: where the image lies in the network's input."""
_LAST = 2
"""The axis of columns."""


class Nodes:
    """Nodes that are added one after the other; values are known by their names."""

    def __init__(self, prefix: str) -> None:
        self.onnx, self._prefix = needed("onnx", "onnx", "the ONNX format"), prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def op(self, kind: str, *inputs: str, name: str | Sequence[str] = "", **attributes: Any) -> str:
        """Adds a node; the name of its (first) output."""
        outputs = [name] if isinstance(name, str) else list(name)
        outputs[0] = outputs[0] or f"{self._prefix}/{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, name=f"{outputs[0]}:node", **attributes))
        return outputs[0]

    def numbers(self, value: Any, dtype: type[Any] = np.int64, name: str = "") -> str:
        """A constant."""
        name = name or f"{self._prefix}/constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def columns(self, value: str, start: int, end: int, axis: int = _LAST, name: str = "") -> str:
        bounds = [self.numbers([number]) for number in (start, end, axis)]
        return self.op("Slice", value, *bounds, name=name)

    def cast(self, value: str, dtype: type[Any], name: str = "") -> str:
        return self.op("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), name=name)


def scored_boxes(nodes: Nodes, classes: int) -> tuple[str, str]:
    """Corners `[B, N, 4]` and scores `[B, N, C]` of the predictions; a single class is scored by objectness alone."""
    centre, size = nodes.columns(PREDICTIONS, 0, 2), nodes.columns(PREDICTIONS, 2, 4)
    half = nodes.op("Mul", size, nodes.numbers(0.5, np.float32))
    corners = nodes.op("Concat", nodes.op("Sub", centre, half), nodes.op("Add", centre, half), axis=_LAST)
    objectness = nodes.columns(PREDICTIONS, 4, 5)
    if classes == 1:
        return corners, objectness
    return corners, nodes.op("Mul", objectness, nodes.columns(PREDICTIONS, 5, 5 + classes))


def add_suppression(nodes: Nodes, facts: ExportFacts) -> None:
    """From the predictions to `[B, K, 6]`: x1, y1, x2, y2, score, class, best first; rows of zeros are none."""
    classes, last = len(facts.names), nodes.numbers([_LAST])
    corners_BN4, scores_BNC = scored_boxes(nodes, classes)
    best_BN1 = nodes.op("ReduceMax", scores_BNC, last, keepdims=1)
    label_BN1 = nodes.op("ArgMax", scores_BNC, axis=_LAST, keepdims=1)
    apart_BNC = best_BN1
    if classes > 1 and not facts.agnostic:
        own = nodes.op("Equal", label_BN1, nodes.numbers(range(classes)))
        apart_BNC = nodes.op("Where", own, best_BN1, nodes.numbers(0, np.float32))
    most = nodes.numbers([facts.max_det], np.int64, MAX_DET)
    thresholds = nodes.numbers([facts.iou], np.float32, IOU), nodes.numbers([facts.conf], np.float32, CONF)
    apart_BCN = nodes.op("Transpose", apart_BNC, perm=[0, 2, 1])
    kept_S3 = nodes.op("NonMaxSuppression", corners_BN4, apart_BCN, most, *thresholds)
    place_S2 = nodes.op("Concat", nodes.columns(kept_S3, 0, 1, 1), nodes.columns(kept_S3, 2, 3, 1), axis=1)
    # The scores of what is kept, at their rows, and 0 elsewhere: the best of each image are its detections.
    best_BN = nodes.op("Squeeze", best_BN1, last)
    nothing_BN = nodes.op("Mul", best_BN, nodes.numbers(0, np.float32))
    kept_BN = nodes.op("ScatterND", nothing_BN, place_S2, nodes.op("GatherND", best_BN, place_S2))
    fewer = nodes.op("Min", most, nodes.columns(nodes.op("Shape", best_BN), 1, 2, 0))
    score_BK, row_BK = f"{DETECTIONS}/scores", f"{DETECTIONS}/rows"
    nodes.op("TopK", kept_BN, fewer, name=(score_BK, row_BK), axis=1)
    if facts.image_order:
        corners_BN4 = _in_own_pixels(nodes, corners_BN4)
    every_BN6 = nodes.op("Concat", corners_BN4, best_BN1, nodes.cast(label_BN1, np.float32), axis=_LAST)
    found_BK6 = nodes.op("GatherND", every_BN6, nodes.op("Unsqueeze", row_BK, last), batch_dims=1)
    exists_BK = nodes.op("Greater", score_BK, nodes.numbers(0, np.float32))
    shown_BK6 = nodes.op("Where", nodes.op("Unsqueeze", exists_BK, last), found_BK6, nodes.numbers(0, np.float32))
    missing = nodes.op("Sub", most, fewer)
    pads = nodes.op("Concat", nodes.numbers([0] * 4), missing, nodes.numbers([0]), axis=0)
    rows_BK6 = nodes.op("Pad", shown_BK6, pads, name="" if facts.end2end else DETECTIONS)
    if facts.end2end:
        _split(nodes, rows_BK6, exists_BK)


def _split(nodes: Nodes, rows_BK6: str, exists_BK: str) -> None:
    """Into YOLOv7's four outputs."""
    count, boxes, scores, labels = END2END
    last = nodes.numbers([_LAST])
    nodes.op("ReduceSum", nodes.cast(exists_BK, np.int32), nodes.numbers([1]), keepdims=1, name=count)
    nodes.columns(rows_BK6, 0, 4, name=boxes)
    nodes.op("Squeeze", nodes.columns(rows_BK6, 4, 5), last, name=scores)
    nodes.cast(nodes.op("Squeeze", nodes.columns(rows_BK6, 5, 6), last), np.int32, labels)


def add_efficient_nms(nodes: Nodes, facts: ExportFacts) -> None:
    """TensorRT's plugin, which counts a box for every class above the threshold."""
    corners, scores = scored_boxes(nodes, len(facts.names))
    nodes.op(
        "EfficientNMS_TRT", corners, scores, name=END2END, domain="TRT", background_class=-1, box_coding=0,
        class_agnostic=int(facts.agnostic), iou_threshold=facts.iou, max_output_boxes=facts.max_det,
        plugin_version="1", score_activation=0, score_threshold=facts.conf,
    )  # fmt: skip


def add_preparation(nodes: Nodes, facts: ExportFacts) -> None:
    """From one uint8 `[H, W, 3]` of any size to the network's input: resized linearly, padded, in its order and range.

    Resized as OpenCV does it, levels rounded; both round differently now and then, by one level of 255.
    """
    wanted, inputs = nodes.numbers(facts.shape, np.float64), facts.inputs
    size = nodes.cast(nodes.columns(nodes.op("Shape", IMAGE), 0, 2, 0), np.float64)
    ratio = nodes.op("ReduceMin", nodes.op("Div", wanted, size), nodes.numbers([0]), keepdims=1)
    used = nodes.op("Max", nodes.op("Floor", nodes.op("Mul", size, ratio)), nodes.numbers([1], np.float64))
    room = nodes.op("Sub", wanted, used)
    before = nodes.numbers([0, 0], np.float64)
    if not inputs.top_left:
        half = nodes.op("Mul", room, nodes.numbers([0.5], np.float64))
        before = nodes.op("Round", nodes.op("Sub", half, nodes.numbers([0.1], np.float64)))
    levels = nodes.op("Unsqueeze", nodes.op("Transpose", IMAGE, perm=[2, 0, 1]), nodes.numbers([0]))
    sides = nodes.op("Concat", nodes.numbers([1, 3]), nodes.cast(used, np.int64), axis=0)
    resized = nodes.op("Resize", nodes.cast(levels, np.float32), "", "", sides, mode="linear")
    ends = [nodes.cast(before, np.int64), nodes.numbers([0, 0]), nodes.cast(nodes.op("Sub", room, before), np.int64)]
    pads = nodes.op("Concat", nodes.numbers([0, 0]), *ends, axis=0)
    placed = nodes.op("Pad", nodes.op("Round", resized), pads, nodes.numbers(FILL, np.float32))
    if (facts.image_order == "rgb") != inputs.rgb:
        placed = nodes.op("Gather", placed, nodes.numbers([2, 1, 0]), axis=1)
    nodes.op("Div", placed, nodes.numbers(inputs.divisor, np.float32), name=IMAGES)
    swapped = nodes.numbers([1, 0, 1, 0])
    for value, name in ((nodes.op("Div", used, size), _SCALE), (before, _PAD), (size, _LIMIT)):
        nodes.cast(nodes.op("Gather", value, swapped, axis=0), np.float32, name)


def _in_own_pixels(nodes: Nodes, corners_BN4: str) -> str:
    placed = nodes.op("Div", nodes.op("Sub", corners_BN4, _PAD), _SCALE)
    return nodes.op("Min", nodes.op("Max", placed, nodes.numbers(0, np.float32)), _LIMIT)
