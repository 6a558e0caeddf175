"""Every key a hyper-parameter file may have: what it means, which values it takes, and its value if nobody says.

Defaults are those published for YOLOv7 (p5). Keys without one are optional: they are passed on only if given. Upper
ends are generous: what is beyond them is a slip of the keyboard, and would end in a loss that is not a number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yolofast.extensions import ASSIGNERS

_NAMES = ", ".join(f"`{name}`" for name in ASSIGNERS)


@dataclass(frozen=True, kw_only=True)
class HypKey:
    meaning: str
    default: float | None
    suits: Callable[[Any], bool]
    takes: str
    """In words, for messages."""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _from_0_to(most: float, default: float | None, meaning: str) -> HypKey:
    return HypKey(
        meaning=meaning,
        default=default,
        suits=lambda value: _number(value) and 0 <= value <= most,
        takes=f"a number from 0 to {most:g}",
    )


def _from_0_to_below(end: float, default: float | None, meaning: str) -> HypKey:
    return HypKey(
        meaning=meaning,
        default=default,
        suits=lambda value: _number(value) and 0 <= value < end,
        takes=f"a number from 0 to below {end:g}",
    )


def _above(end: float, most: float, default: float | None, meaning: str) -> HypKey:
    return HypKey(
        meaning=meaning,
        default=default,
        suits=lambda value: _number(value) and end < value <= most,
        takes=f"a number above {end:g} and at most {most:g}",
    )


def _switch(meaning: str) -> HypKey:
    return HypKey(meaning=meaning, default=None, suits=lambda value: isinstance(value, bool), takes="true or false")


def _assigner(value: Any) -> bool:
    """Its form only: the engine knows which assigners there are, and in which order epochs may stand."""
    steps = value if isinstance(value, list) else [[0, value]]
    return bool(steps) and all(
        isinstance(step, list) and len(step) == 2 and type(step[0]) is int and isinstance(step[1], str)
        for step in steps
    )


HYP_KEYS: dict[str, HypKey] = {
    "lr0": _above(0, 10, 0.01, "first learning rate"),
    "lrf": _from_0_to(100, 0.1, "last learning rate, as a share of lr0"),
    "momentum": _from_0_to_below(1, 0.937, "of SGD; Adam's β1"),
    "weight_decay": _from_0_to(10, 0.0005, "per update of 64 images; scaled with the batch"),
    "nbs": HypKey(
        meaning="images of an update: smaller batches are added up to it",
        default=None,
        suits=lambda value: type(value) is int and 1 <= value <= 1_000_000,
        takes="a whole number from 1 to 1000000",
    ),
    "warmup_epochs": _from_0_to(1000, 3.0, "epochs in which the learning rate rises; 1,000 batches at least, 0: none"),
    "warmup_momentum": _from_0_to_below(1, 0.8, "momentum at its start"),
    "warmup_bias_lr": _from_0_to(10, 0.1, "learning rate of biases at its start"),
    "box": _from_0_to(1000, 0.05, "gain of the box loss"),
    "cls": _from_0_to(1000, 0.3, "gain of the class loss"),
    "cls_pw": _from_0_to(1000, 1.0, "weight of positives in the class loss"),
    "obj": _from_0_to(1000, 0.7, "gain of the objectness loss"),
    "obj_pw": _from_0_to(1000, 1.0, "weight of positives in the objectness loss"),
    "iou_t": _from_0_to(1, 0.2, "not used; published files have it"),
    "anchor_t": _above(1, 1000, 4.0, "largest ratio of a box's side to an anchor's"),
    "fl_gamma": _from_0_to(100, 0.0, "focal loss above 0"),
    "hsv_h": _from_0_to(100, 0.015, "hue, ± share"),
    "hsv_s": _from_0_to(100, 0.7, "saturation, ± share"),
    "hsv_v": _from_0_to(100, 0.4, "brightness, ± share"),
    "degrees": _from_0_to(180, 0.0, "rotation, ±"),
    "translate": _from_0_to(100, 0.2, "shift, ± share of the image"),
    "scale": _from_0_to_below(1, 0.9, "size, from 1 - scale to 1.1 + scale"),
    "shear": _from_0_to_below(90, 0.0, "± degrees"),
    "perspective": _from_0_to(0.001, 0.0, "± share"),
    "flipud": _from_0_to(1, 0.0, "probability of upside down"),
    "fliplr": _from_0_to(1, 0.5, "probability of mirrored"),
    "mosaic": _from_0_to(1, 1.0, "probability of a mosaic of four images, or nine"),
    "mixup": _from_0_to(1, 0.15, "probability of blending two mosaics"),
    "copy_paste": _from_0_to(1, 0.0, "probability of mirrored copies of objects; needs polygons"),
    "paste_in": _from_0_to(1, 0.15, "probability of pasting objects of other images; needs polygons"),
    "loss_ota": HypKey(
        meaning="1: OTA assigns boxes to anchors; 0: their ratios do",
        default=1,
        suits=lambda value: isinstance(value, int | float) and value in (0, 1),
        takes="1 or 0",
    ),
    "assigner": HypKey(
        meaning=f"instead of loss_ota: {_NAMES}, or `[[0, anchor], [70, ota]]` by epoch",
        default=None,
        suits=_assigner,
        takes="a name, or a list of epochs and names: [[0, anchor], [70, ota]]",
    ),
    "anchors": HypKey(
        meaning="anchors per level, to be fitted to the data, instead of those of the model",
        default=None,
        suits=lambda value: type(value) is int and 1 <= value <= 100,
        takes="a whole number from 1 to 100",
    ),
    "label_smoothing": _from_0_to(1, None, "as `--label-smoothing`"),
    "gr": _from_0_to(1, None, "how much the objectness target follows the overlap"),
    "autobalance": _switch("let the levels' objectness weights follow their losses"),
    "ignore_other_heads": _switch("as `--ignore-other-heads`"),
    "ignore_weight": _from_0_to(1, None, "as `--ignore-weight`"),
    "simota_version": HypKey(
        meaning="YOLOX: `current` or `vendored`",
        default=None,
        suits=lambda value: isinstance(value, str) and value in ("current", "vendored"),
        takes="current or vendored",
    ),
    "use_l1": _switch("YOLOX: the L1 term from the start"),
}
