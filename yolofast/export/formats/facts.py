"""What an exported file says of itself, kept inside it: how images are prepared, what its outputs mean, whose it is.

Each fact is one entry of the file's metadata, its value JSON. So programs of others read them too, without yolofast.
A file may come from anybody: what it says is checked before it is used.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, shorten
from yolofast.files.budget import is_whole_text
from yolofast.structures import InputConvention, ValidationConvention

IMAGES, PREDICTIONS, DETECTIONS, IMAGE = "images", "predictions", "detections", "image"
"""Tensors that every file has: what the network takes, and what it predicts; then the outputs and inputs around it."""
END2END = ("num_dets", "det_boxes", "det_scores", "det_classes")
"""YOLOv7's names."""
_MOST_CLASSES, _LONGEST_NAME, _LARGEST_SIDE = 100_000, 1000, 32_768
_LARGEST_BATCH, _MOST_PIXELS = 4096, 2**27
_MADE_BY = "yolofast"
"""The entry that holds the version, and shows that a file is ours."""


@dataclass(frozen=True, kw_only=True)
class ExportFacts:
    family: str
    names: tuple[str, ...]
    strides: tuple[int, ...]
    shape: tuple[int, int]
    """Height and width of the input, or those usual for it if they may differ."""
    batch: int
    """Images per call; 0: any number."""
    any_sides: bool
    """Height and width may differ from call to call, in whole strides."""
    inputs: InputConvention
    validation: ValidationConvention
    nms: str
    agnostic: bool
    conf: float
    iou: float
    max_det: int
    threshold_inputs: bool
    end2end: bool
    image_order: str
    """`bgr` or `rgb` of the image that is taken as it is; empty: `images` are prepared outside."""
    precision: str
    opset: int
    version: str
    weights: str
    """The name of the weight file."""
    weights_sha256: str

    @property
    def stride(self) -> int:
        return max(self.strides)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Their names, in order."""
        if self.nms == "none":
            return (PREDICTIONS,)
        return END2END if self.end2end or self.nms == "efficientnms" else (DETECTIONS,)

    def metadata(self) -> dict[str, str]:
        taken = self.inputs
        values: dict[str, Any] = {
            _MADE_BY: self.version,
            "family": self.family,
            "names": list(self.names),
            "strides": list(self.strides),
            "stride": self.stride,
            "size": list(self.shape),
            "batch": self.batch,
            "any_sides": self.any_sides,
            "input": {
                "channels": "RGB" if taken.rgb else "BGR",
                "range": [0, 255 / taken.divisor],
                "divisor": taken.divisor,
                "letterbox": "top left" if taken.top_left else "centre",
                "padded": "to the whole size" if taken.whole else "to whole strides",
                "fill": 114,
                "linear": taken.linear,
            },
            "validation": {"conf": self.validation.conf, "multi_label": self.validation.multi_label},
            "nms": self.nms,
            "agnostic": self.agnostic,
            "conf": self.conf,
            "iou": self.iou,
            "max_det": self.max_det,
            "threshold_inputs": self.threshold_inputs,
            "outputs": list(self.outputs),
            "image_order": self.image_order,
            "precision": self.precision,
            "opset": self.opset,
            "weights": self.weights,
            "weights_sha256": self.weights_sha256,
        }
        return {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}


def facts_of(metadata: Mapping[str, str], where: str | Path) -> ExportFacts:
    """Of a file's metadata; files of other tools are refused."""
    if _MADE_BY not in metadata:
        what = "was not exported by yolofast: it does not say how its images are prepared and what its outputs mean"
        raise UserError(what, where=where, fix="yolofast export --weights best.pt, and use that file")
    read = _Reader(metadata, where)
    size, taken, validation = read.list("size", int), read.dict("input"), read.dict("validation")
    names, strides = read.list("names", str), read.list("strides", int)
    read.want("size", len(size) == 2 and all(0 < side <= _LARGEST_SIDE for side in size))
    batch = read.one("batch", int)
    read.want("batch", 0 <= batch <= _LARGEST_BATCH)
    read.want("size", max(batch, 1) * size[0] * size[1] <= _MOST_PIXELS)
    texts = (len(name) <= _LONGEST_NAME and is_whole_text(name) for name in names)
    read.want("names", 0 < len(names) <= _MOST_CLASSES and all(texts))
    read.want("strides", 0 < len(strides) <= 8 and all(0 < stride <= 1024 for stride in strides))
    divisor, conf = taken.get("divisor"), validation.get("conf")
    read.want("input", isinstance(divisor, int | float) and not isinstance(divisor, bool) and 0 < divisor < 1e9)
    read.want("validation", isinstance(conf, int | float) and not isinstance(conf, bool) and 0 <= conf <= 1)
    assert isinstance(divisor, int | float) and isinstance(conf, int | float)
    return ExportFacts(
        family=read.one("family", str),
        names=tuple(names),
        strides=tuple(strides),
        shape=(size[0], size[1]),
        batch=batch,
        any_sides=read.one("any_sides", bool),
        inputs=InputConvention(
            rgb=taken.get("channels") != "BGR",
            divisor=float(divisor),
            top_left=taken.get("letterbox") == "top left",
            whole=taken.get("padded") == "to the whole size",
            linear=taken.get("linear") is True,
            size=max(size),
        ),
        validation=ValidationConvention(conf=float(conf), multi_label=validation.get("multi_label") is True),
        nms=read.one("nms", str),
        agnostic=read.one("agnostic", bool),
        conf=read.one("conf", float),
        iou=read.one("iou", float),
        max_det=read.one("max_det", int),
        threshold_inputs=read.one("threshold_inputs", bool),
        end2end=read.list("outputs", str)[:1] == [END2END[0]],
        image_order=read.one("image_order", str),
        precision=read.one("precision", str),
        opset=read.one("opset", int),
        version=read.one(_MADE_BY, str),
        weights=read.one("weights", str),
        weights_sha256=read.one("weights_sha256", str),
    )


class _Reader:
    """Values of the kind they must have."""

    def __init__(self, metadata: Mapping[str, str], where: str | Path) -> None:
        self._metadata, self._where = metadata, where

    def want(self, name: str, holds: bool) -> None:
        if not holds:
            what = f"its metadata are damaged: {name} is {shorten(self._metadata.get(name))}"
            raise UserError(what, where=self._where, fix="export it again")

    def one(self, name: str, kind: type[Any]) -> Any:
        value = self._value(name)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**63 else None
        self.want(name, isinstance(value, kind) and (kind is bool or not isinstance(value, bool)))
        return value

    def list(self, name: str, kind: type[Any]) -> list[Any]:
        value = self._value(name)
        self.want(name, isinstance(value, list) and all(type(one) is kind for one in value))
        return value  # type: ignore[no-any-return]

    def dict(self, name: str) -> dict[str, Any]:
        value = self._value(name)
        self.want(name, isinstance(value, dict))
        return value  # type: ignore[no-any-return]

    def _value(self, name: str) -> Any:
        try:
            return json.loads(self._metadata.get(name, ""))
        except (ValueError, RecursionError):
            self.want(name, False)
