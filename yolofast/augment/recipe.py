"""What may happen to an image, and how often: the published recipes of YOLOv7 and YOLOX, and changes of them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from yolofast.errors import UserError, nearest, shorten

_SHARES = ("mosaic", "nine", "mixup", "paste_in", "copy_paste", "flipud", "fliplr", "colour")
# Keys of a hyper-parameter file that concern images; `scale` is spread about 1 there.
_HYP_KEYS = (
    "mosaic", "mixup", "paste_in", "copy_paste", "degrees", "translate", "scale", "shear", "perspective",
    "hsv_h", "hsv_s", "hsv_v", "flipud", "fliplr",
)  # fmt: skip
_HUGE = 1e9


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        raise UserError(f"{key} is {shorten(value)}", fix=f"give a number: `{key}: 0.5`")
    return float(value)


def _require_like(name: str, value: Any, default: Any) -> None:
    """A number where the default is one, as many numbers where it is several."""
    if not isinstance(default, tuple):
        _number(name, value)
    elif not isinstance(value, tuple) or len(value) != len(default):
        raise UserError(f"{name} is {shorten(value)}", fix=f"give {len(default)} numbers, such as {default}")
    else:
        for number in value:
            _number(name, number)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Probabilities are shares of images; angles are degrees; translation is a share of the image."""

    style: Literal["yolov7", "yolox"] = "yolov7"
    """`yolov7`: transforms about the canvas's centre, multiplies HSV, filters boxes by what is left of them, blends
    with another mosaic. `yolox`: about its corner, adds to HSV, keeps boxes over a pixel, blends with one image."""
    mosaic: float = 0.0
    nine: float = 0.2
    """Share of mosaics made of nine images (YOLOv7)."""
    mixup: float = 0.0
    mixup_scale: tuple[float, float] = (0.5, 1.5)
    """Size of the image blended in (YOLOX)."""
    paste_in: float = 0.0
    copy_paste: float = 0.0
    degrees: float = 0.0
    translate: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    shear: float = 0.0
    perspective: float = 0.0
    hsv: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Largest change of hue, saturation and value: a factor's distance from 1, or levels for `yolox`."""
    colour: float = 1.0
    """Share of images whose colour changes."""
    flipud: float = 0.0
    fliplr: float = 0.0

    def __post_init__(self) -> None:
        if self.style not in ("yolov7", "yolox"):
            raise UserError(f"style is {shorten(self.style)}", fix="give yolov7 or yolox")
        for field in dataclasses.fields(self)[1:]:
            _require_like(field.name, getattr(self, field.name), field.default)
        for name in _SHARES:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UserError(f"{name} is {getattr(self, name)}", fix="give a probability from 0 to 1")
        for name in ("scale", "mixup_scale"):
            low, high = getattr(self, name)
            if not 0.0 < low <= high:
                raise UserError(f"{name} ranges from {low:g} to {high:g}", fix="give sizes above 0, the smaller first")
        if not (0 <= self.degrees <= 180 and 0 <= self.shear < 90):
            what = f"degrees is {self.degrees:g} and shear {self.shear:g}"
            raise UserError(what, fix="give degrees from 0 to 180, shear from 0 to below 90")
        if not (self.translate >= 0 and 0 <= self.perspective <= 0.001 and min(self.hsv) >= 0):
            what = f"translate is {self.translate:g}, perspective {self.perspective:g}, hsv {self.hsv}"
            raise UserError(what, fix="none may be negative, and perspective at most 0.001")

    @staticmethod
    def from_hyp(hyp: Mapping[str, Any]) -> "Recipe":
        """YOLOv7's recipe with the values of a hyper-parameter file; keys it lacks do nothing."""
        value: dict[str, Any] = {key: _number(key, hyp.get(key, 0.0)) for key in _HYP_KEYS}
        spread = value.pop("scale")
        if not 0 <= spread < 1:
            raise UserError(f"scale is {spread:g}", fix="give a share from 0 to below 1")
        hsv = (value.pop("hsv_h"), value.pop("hsv_s"), value.pop("hsv_v"))
        return Recipe(style="yolov7", scale=(1 - spread, 1.1 + spread), hsv=hsv, **value)

    @staticmethod
    def yolox(**changes: Any) -> "Recipe":
        """YOLOX's published recipe for COCO, with changes by field name."""
        return change(_YOLOX, changes)

    def weakened(self, strength: float) -> "Recipe":
        """1 leaves it as it is, 0 leaves mirroring alone: probabilities and reaches are multiplied, sizes drawn to 1.

        What is drawn stays: an image that is no mosaic at some strength is none at a smaller one.
        """
        products = (
            "mosaic", "mixup", "paste_in", "copy_paste", "degrees", "translate", "shear", "perspective",
        )  # fmt: skip
        (low, high), (hue, saturation, value) = self.scale, self.hsv
        return dataclasses.replace(
            self,
            hsv=(strength * hue, strength * saturation, strength * value),
            scale=(1 + strength * (low - 1), 1 + strength * (high - 1)),
            **{name: strength * getattr(self, name) for name in products},
        )

    def without_mosaic(self) -> "Recipe":
        """For the last epochs: single images, no blending; colour, flips and (YOLOv7) the small transform stay."""
        return dataclasses.replace(self, mosaic=0.0, mixup=0.0, paste_in=0.0, copy_paste=0.0)


_YOLOX = Recipe(
    style="yolox", mosaic=1.0, nine=0.0, mixup=1.0, degrees=10.0, translate=0.1, scale=(0.1, 2.0), shear=2.0,
    hsv=(5.0, 30.0, 30.0), fliplr=0.5,
)  # fmt: skip


def change(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    known = [field.name for field in dataclasses.fields(Recipe)]
    for name in changes:
        if name not in known:
            raise UserError(f"an augmentation recipe has no {name}{nearest(name, known)}")
    return dataclasses.replace(recipe, **changes)
