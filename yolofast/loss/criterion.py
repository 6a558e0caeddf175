"""What every loss is to a step: a plain callable from raw maps and targets to terms; and a YOLOv7 loss's settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from torch import Tensor

from yolofast.errors import UserError, shorten
from yolofast.structures import LossTerms, Targets


class Criterion(Protocol):
    """A loss: a plain callable that holds no parameters."""

    def __call__(self, raw: Sequence[Tensor], targets: Targets) -> LossTerms: ...


def state_of(criterion: Criterion) -> list[Tensor]:
    """What a loss changes from step to step (`tensors()`, where it has that): part of a run's state."""
    tensors = getattr(criterion, "tensors", None)
    return [] if tensors is None else tensors()


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Gains as the loss applies them, after the published scaling by levels, classes and image size."""

    box: float = 0.05
    obj: float = 0.7
    cls: float = 0.3
    cls_pw: float = 1.0
    """Weight of positives in the class term."""
    obj_pw: float = 1.0
    """Weight of positives in the objectness term."""
    anchor_t: float = 4.0
    """Largest ratio of sizes at which an anchor may learn a box."""
    fl_gamma: float = 0.0
    """Focal loss above 0."""
    label_smoothing: float = 0.0
    gr: float = 1.0
    """How much the objectness target follows the overlap; the rest is 1."""
    cls_gr: float = 0.0
    """How much the class target of a positive follows the overlap too; the rest is 1. YOLOX learns all of it so."""
    autobalance: bool = False
    """Let the levels' objectness weights follow their losses."""

    @staticmethod
    def from_hyp(hyp: Mapping[str, Any], levels: int, nc: int, image_size: int) -> "LossSettings":
        """From unscaled hyper-parameters; keys that are not the loss's are left alone."""
        known = {field.name: field for field in fields(LossSettings)}
        given = {key: value for key, value in hyp.items() if key in known}
        for key, value in given.items():
            boolean = key == "autobalance"
            is_number = isinstance(value, int | float) and 0 <= value < float("inf")
            if isinstance(value, bool) != boolean or not is_number:
                raise UserError(
                    f"hyper-parameter {key} is {shorten(value)}",
                    fix="give true or false" if boolean else f"give {key} a number of at least 0",
                )
        settings = LossSettings(**given)
        for key in ("gr", "cls_gr", "label_smoothing"):
            value = getattr(settings, key)
            if value > 1:
                raise UserError(f"hyper-parameter {key} is {value}", fix="give a number from 0 to 1")
        if settings.anchor_t <= 1:
            raise UserError(f"anchor_t is {settings.anchor_t}", fix="give a ratio above 1; published files say 4.0")
        per_level = 3 / levels
        scaled = {
            "box": settings.box * per_level,
            "cls": settings.cls * nc / 80 * per_level,
            "obj": settings.obj * (image_size / 640) ** 2 * per_level,
        }
        return LossSettings(**{**given, **scaled})
