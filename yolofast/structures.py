"""The typed values that cross stage boundaries.

Axes used in tensor names across the package: B images in the batch, G ground-truth boxes (padded), A anchor positions,
N predictions, C classes, L levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.boxes import to_normalised
from yolofast.errors import UserError

QUAD_IMAGES = 4
"""That `--quad` joins into one."""


@dataclass(frozen=True, kw_only=True)
class HeadLayout:
    """How to read a detector's raw maps: static facts only, so that reading them never waits for the device.

    A model returns one raw map per level, `[B, anchors_per_cell, H, W, channels]`. With several heads (1B4H) the maps
    of head 0 come first, then those of head 1, and so on: map `head * levels + level`.
    """

    kind: Literal["anchor", "bin", "point", "decoded"]
    """`anchor`: x, y, w, h, obj, classes. `bin`: x, y, w and h as one offset and `bins` logits each, obj, classes.
    `point` (YOLOX): as `anchor`, one point per cell and no anchors. `decoded`: an exported file's predictions."""
    nc: int
    strides: tuple[int, ...]
    anchors_per_cell: int
    bins: int = 0
    head_classes: tuple[tuple[int, ...], ...] = ()
    """1B4H: the classes each head owns, in the order of its class channels; empty for a single head."""
    head_weights: tuple[float, ...] = ()
    """1B4H: how much each head's loss counts in their sum; empty if all count 1."""
    full_head: bool = False
    """1B4H: every head has a channel for every class, those of other heads being ignored."""
    auxiliary: bool = False
    """In training mode as many auxiliary maps follow the lead maps."""

    @property
    def has_anchors(self) -> bool:
        return self.kind in ("anchor", "bin")

    @property
    def levels(self) -> int:
        return len(self.strides)

    @property
    def heads(self) -> int:
        return max(1, len(self.head_classes))


@dataclass(frozen=True, kw_only=True)
class InputConvention:
    """How a network's input is prepared. It belongs to the network: its weights are useless under another."""

    rgb: bool = True
    """Channels in the order red, green, blue; otherwise blue first, as OpenCV reads them."""
    divisor: float = 255.0
    """What the levels 0 to 255 are divided by."""
    top_left: bool = False
    """The image is in the corner and padded behind; otherwise it is in the middle."""
    whole: bool = False
    """It is padded to the whole given size; otherwise only as far as the strides need."""
    linear: bool = False
    """For validation too, images that shrink are resized linearly; otherwise they are averaged over areas."""
    size: int = 640
    """Pixels of the long side, for weights that do not say what they were trained at."""

    def as_input(self, images: Tensor) -> Tensor:
        """Levels from the host as the network takes them; images made on the device are that already."""
        return images.float() / self.divisor if images.dtype is torch.uint8 else images


@dataclass(frozen=True, kw_only=True)
class ValidationConvention:
    """What of a network's predictions is compared with the labels, so that figures compare with published ones."""

    conf: float = 0.001
    """Scores from which on predictions count."""
    multi_label: bool = True
    """A box counts for every class above that; otherwise for its best class alone."""


class RawMapReader(Protocol):
    """What decoding and losses need to know of a model, and all they may know."""

    @property
    def layout(self) -> HeadLayout: ...

    @property
    def anchors_px(self) -> Tensor:
        """Anchor sizes in input pixels, `[L, anchors_per_cell, 2]`."""

    @property
    def class_columns(self) -> Tensor | None:
        """1B4H: `[heads, nc]`, the place of each class among a head's class channels; one past the last if foreign."""


# Sizes a batch's boxes are padded to. Few sizes, so that a compiled or captured step is built only a few times.
_CAPACITIES = (16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Targets:
    """The ground truth of a batch in fixed shapes: image b has `valid[b].sum()` boxes among its G slots."""

    boxes: Tensor
    """`[B, G, 4]` float32: cx, cy, w, h as shares of the image's width and height."""
    labels: Tensor
    """`[B, G]` int64; 0 where not valid."""
    valid: Tensor
    """`[B, G]` bool. The order of an image's boxes is that of its rows; ties are broken by it."""

    @staticmethod
    def from_rows(rows: Tensor, batch_size: int, capacity: int | None = None) -> "Targets":
        """From rows `image class cx cy w h` (normalised), in any order of images.

        Without `capacity` the padding slots per image are the smallest of 16, 32, 64 … that holds the fullest image.
        Finding it reads the rows, so give it for rows that are already on the device.
        """
        rows = torch.as_tensor(rows, dtype=torch.float32)
        if rows.ndim != 2 or rows.shape[1] != 6:
            raise UserError(f"target rows have shape {tuple(rows.shape)}", fix="give [n, 6]: image class cx cy w h")
        if capacity is not None and capacity < 1:
            raise UserError(f"capacity is {capacity}", fix="give at least 1 slot per image")
        if capacity is None or rows.device.type == "cpu":
            _check_rows(rows, batch_size)
        image = rows[:, 0].long()
        if capacity is None:
            capacity = bucketed(int(image.bincount(minlength=1).max()))
        order = torch.sort(image, stable=True).indices
        count = torch.zeros(batch_size, dtype=torch.long, device=rows.device).index_add_(
            0, image, torch.ones_like(image)
        )
        start = count.cumsum(0) - count
        image = image[order]
        slot = torch.arange(len(rows), device=rows.device) - start[image]
        padded = rows.new_zeros(batch_size, capacity + 1, 5)
        # Boxes beyond the capacity go to one slot more, which is cut off.
        padded[image, slot.clamp(max=capacity)] = rows[order, 1:]
        valid = torch.arange(capacity, device=rows.device) < count[:, None]
        return Targets(padded[:, :capacity, 1:].contiguous(), padded[:, :capacity, 0].long(), valid)

    @staticmethod
    def from_padded(labels: Tensor, width: int, height: int) -> "Targets":
        """From YOLOX's padded labels `[B, M, 5]`: class, cx, cy, w, h in pixels, rows of zeros being padding."""
        if labels.ndim != 3 or labels.shape[2] != 5:
            raise UserError(f"padded labels have shape {tuple(labels.shape)}", fix="give [batch, slots, 5]")
        if labels.shape[1] == 0:  # a batch without any box still has one (empty) slot, so that no axis is empty
            labels = labels.new_zeros(len(labels), 1, 5)
        boxes = to_normalised(labels[..., 1:].float(), width, height)
        return Targets(boxes, labels[..., 0].long(), (labels != 0).any(-1))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Targets":
        moved = (t.to(device, non_blocking=non_blocking) for t in (self.boxes, self.labels, self.valid))
        return Targets(*moved)

    def check(self, nc: int) -> None:
        """Refuse boxes no loss can use. It reads the values, so call it once per data set or while debugging."""
        boxes, labels = self.boxes, self.labels
        if boxes.shape != (*labels.shape, 4) or labels.shape != self.valid.shape or labels.ndim != 2:
            shapes = f"boxes {tuple(boxes.shape)}, labels {tuple(labels.shape)}, valid {tuple(self.valid.shape)}"
            raise UserError(f"targets do not fit together: {shapes}", fix="give [B, G, 4], [B, G] and [B, G]")
        faults = (
            (~boxes.isfinite().all(-1), "has a NaN or infinite coordinate", "correct its label file"),
            ((boxes[..., 2:] < 0).any(-1), "has a negative size", "give width and height of at least 0"),
            (((boxes < 0) | (boxes > 1.001)).any(-1), "is not normalised", "divide by the image's width and height"),
            ((labels < 0) | (labels >= nc), f"has a class that is not 0 to {nc - 1}", "correct the class or nc"),
        )
        for fault, what, fix in faults:
            found = (fault & self.valid).nonzero()
            if len(found):
                image, row = found[0].tolist()
                values = [int(labels[image, row]), *boxes[image, row].tolist()]
                raise UserError(f"image {image}, box {row} {what}: class cx cy w h = {values}", fix=fix)


def _check_rows(rows: Tensor, batch_size: int) -> None:
    """Image and class must be whole numbers, and the image one of the batch: anything else would land elsewhere."""
    image, label = rows[:, 0], rows[:, 1]
    lost = ~((image >= 0) & (image < batch_size) & (image == image.floor()))
    if lost.any():
        row = int(lost.nonzero()[0])
        what = f"target row {row} belongs to image {image[row]:g} of a batch of {batch_size}"
        raise UserError(what, fix=f"number the images 0 to {batch_size - 1}")
    broken = label != label.floor()  # also NaN, which equals nothing
    if broken.any():
        row = int(broken.nonzero()[0])
        raise UserError(f"target row {row} has class {label[row]:g}", fix="give rows image class cx cy w h")


def bucketed(boxes: int) -> int:
    """The number of slots to pad an image's boxes to: 16, 32, 64 …"""
    capacity = next((size for size in _CAPACITIES if size >= boxes), None)
    return capacity if capacity is not None else -(-boxes // _CAPACITIES[-1]) * _CAPACITIES[-1]


@dataclass(frozen=True)
class BatchMix:
    """Which shares of a batch's images were put together from others."""

    mosaic: float
    mixup: float


@dataclass(frozen=True)
class Batch:
    """Images ready for the network, and what is on them."""

    images: Tensor
    """`[B, 3, H, W]`: uint8 levels as rendered, or floats as the network takes them."""
    targets: Targets
    sources: npt.NDArray[np.int64]
    """[B] which images of the split they are (of a mosaic: the first)."""
    gain: npt.NDArray[np.float64] | None = None
    """[B, 2] for validation: x and y of the original image times `gain` plus `pad` is where they are in the input."""
    pad: npt.NDArray[np.float64] | None = None
    mix: BatchMix | None = None
    """For training, where it is known."""


@dataclass(frozen=True)
class Detections:
    """What was found on one image. On the host, because all that follows – matching, drawing, files – happens there."""

    boxes: npt.NDArray[np.float32]
    """[n, 4] x1, y1, x2, y2 in pixels."""
    scores: npt.NDArray[np.float32]
    """[n] best first."""
    labels: npt.NDArray[np.int64]
    """[n]"""

    @staticmethod
    def none() -> "Detections":
        return Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))

    @staticmethod
    def joined(several: Sequence["Detections"]) -> "Detections":
        """Those of several images, one after the other."""
        parts = [Detections.none(), *several]
        boxes, scores = np.concatenate([one.boxes for one in parts]), np.concatenate([one.scores for one in parts])
        return Detections(boxes, scores, np.concatenate([one.labels for one in parts]))

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, chosen: slice | npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "Detections":
        return Detections(self.boxes[chosen], self.scores[chosen], self.labels[chosen])

    def in_original(self, gain: npt.ArrayLike, pad: npt.ArrayLike, size: npt.ArrayLike) -> "Detections":
        """From input pixels to those of the original image of this width and height (see `Batch.gain`), cut off there.

        All three are x and y.
        """
        gain, pad, size = (np.tile(np.asarray(value, np.float64), 2) for value in (gain, pad, size))
        boxes = ((self.boxes - pad) / gain).clip(0.0, size).astype(np.float32)
        return Detections(boxes, self.scores, self.labels)


@dataclass(frozen=True)
class Assignment:
    """Who learns which box on one level, in S fixed slots per image; a cell may fill several slots."""

    cell: Tensor
    """`[B, S]` position in the level's map, (anchor · H + y) · W + x. Somewhere harmless where not positive."""
    target: Tensor
    """`[B, S]` which of the image's G boxes the cell learns."""
    positive: Tensor
    """`[B, S]` bool: the slot is used."""
    sets_objectness: Tensor
    """`[B, S]` bool: of several positive slots of one cell, the one whose overlap is the objectness target."""
    quality: Tensor | None = None
    """`[B, S]`, for assigners that grade their positives (TAL): the objectness target in place of the overlap."""


@dataclass(frozen=True)
class LossTerms:
    """A loss and its parts, gains applied. `total` carries the gradient; the parts are for logging.

    A part is read by its name: `terms.box` is `terms.parts["box"]`.
    """

    total: Tensor
    parts: dict[str, Tensor]
    """The terms of the sum, by the names they have in every record. A loss always has the same ones."""
    times_images: bool = False
    """The total is multiplied by the images of the batch, as YOLOv7 does."""
    foreground: Tensor | None = None
    """Positives per ground-truth box, where a loss counts them."""

    def mean_total(self, images: int) -> Tensor:
        """The total whatever the batch."""
        return self.total / images if self.times_images else self.total

    @property
    def iou(self) -> Tensor:
        """The box term as YOLOX calls it."""
        return self.parts["box"]

    def __getattr__(self, name: str) -> Tensor:
        parts: dict[str, Tensor] = self.__dict__.get("parts", {})  # a copy in the making has none yet
        if name not in parts:
            raise AttributeError(f"this loss has no term {name!r}, but {', '.join(parts)}")
        return parts[name]


def level_shapes(raw: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Rows and columns of each raw map."""
    return [(raw_map.shape[2], raw_map.shape[3]) for raw_map in raw]
