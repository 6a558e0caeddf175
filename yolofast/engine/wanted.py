"""Which detections are wanted of a picture: as Python callers give it, checked, classes by number or name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from yolofast.engine.thresholds import Thresholds
from yolofast.errors import UserError, nearest, shorten

_SHOWN_CLASSES = 20


@dataclass(frozen=True, kw_only=True)
class Wanted:
    conf: float = 0.25
    iou: float = 0.45
    classes: Sequence[int | str] | None = None
    """None: all."""
    agnostic: bool = False
    """Overlaps count across classes."""
    most: int = 300
    augment: bool = False
    """Look at three sizes, once mirrored."""

    def __post_init__(self) -> None:
        for name in ("conf", "iou"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= 1:
                raise UserError(f"{name} is {shorten(value)}", fix="give a number from 0 to 1")
        if not _is_number(self.most) or self.most != int(self.most) or self.most < 1:
            raise UserError(f"most is {shorten(self.most)}", fix="give a whole number of at least 1")

    def thresholds(self, names: Sequence[str]) -> Thresholds:
        """For a network that knows these names: a box is of its best class."""
        return Thresholds(
            conf=self.conf, iou=self.iou, multi_label=False, most=self.most, agnostic=self.agnostic,
            classes=self.class_numbers(names),
        )  # fmt: skip

    def class_numbers(self, names: Sequence[str]) -> list[int] | None:
        """Of a network that knows these names; None if all are wanted."""
        if self.classes is None:
            return None
        several = [self.classes] if isinstance(self.classes, str | int) else list(self.classes)
        return [_class_number(one, names) for one in several]


def _class_number(wanted: int | str, names: Sequence[str]) -> int:
    """A number is a number, even if a class is called by another."""
    if isinstance(wanted, str) and wanted in names:
        return list(names).index(wanted)
    if _is_number(wanted) and not isinstance(wanted, str) and wanted == int(wanted) and 0 <= wanted < len(names):
        return int(wanted)
    known = ", ".join(f"{number} {name}" for number, name in enumerate(names[:_SHOWN_CLASSES]))
    more = f", … {len(names) - 1} {names[-1]}" if len(names) > _SHOWN_CLASSES else ""
    hint = nearest(wanted, names) if isinstance(wanted, str) else ""
    raise UserError(f"there is no class {shorten(wanted)}{hint}", fix=f"the network knows {known}{more}")


def _is_number(value: object) -> bool:
    """Of any library: numpy's too."""
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False
