"""Which of a network's predictions count as detections: chosen here, whoever asks the network."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from yolofast.evaluate.nms import BegunSuppression, begin_suppression
from yolofast.model.network import Network
from yolofast.structures import Detections


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    conf: float
    """Scores above it count."""
    iou: float
    """Boxes that overlap a better one by more are suppressed."""
    multi_label: bool
    """A box may be of several classes."""
    most: int = 300
    """Detections of an image."""
    agnostic: bool = False
    """Overlaps count across classes."""
    classes: Sequence[int] | None = None
    """None: all."""

    def begin(self, predictions: Tensor) -> BegunSuppression:
        """Waits for nothing; see `begin_suppression`."""
        return begin_suppression(
            predictions, self.conf, self.iou, multi_label=self.multi_label, agnostic=self.agnostic,
            classes=self.classes, max_detections=self.most,
        )  # fmt: skip

    def detections(self, predictions: Tensor) -> list[Detections]:
        """Of each image, in input pixels. Waits for the device."""
        return self.begin(predictions).launch().get()


def to_validate(model: Network, conf: float | None = None, iou: float = 0.65, most: int = 300) -> Thresholds:
    """As the network's authors validate it, except for what is asked for."""
    own = model.validation
    return Thresholds(conf=own.conf if conf is None else conf, iou=iou, multi_label=own.multi_label, most=most)
