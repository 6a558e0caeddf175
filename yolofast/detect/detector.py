"""A trained detector applied to images, videos and streams, with the detection settings that Python callers give."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolofast.detect.networks import read_all_trained, shape_of
from yolofast.detect.predictor import Predictor
from yolofast.errors import UserError, nearest, shorten
from yolofast.evaluate.nms import Thresholds
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.media.pictures import checked_picture, fit
from yolofast.media.sources import frame_batches
from yolofast.media.streams import OnFault, StreamEndedError
from yolofast.pixels import Image
from yolofast.precision import Name, Precision, device_of
from yolofast.structures import Detections

_SHOWN_CLASSES = 20
_MOST_AT_ONCE = 32
_BATCHES_AHEAD = 1
_SIZES = (32, 32_768)


@dataclass(frozen=True, kw_only=True)
class DetectionFilter:
    conf: float = 0.25
    iou: float = 0.45
    classes: Sequence[int | str] | None = None
    """By number or name; None: all."""
    agnostic: bool = False
    """Overlaps count across classes."""
    most: int = 300
    augment: bool = False
    """Test-time augmentation: three sizes, one of them mirrored."""

    def __post_init__(self) -> None:
        for name in ("conf", "iou"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= 1:
                raise UserError(f"{name} is {shorten(value)}", fix="give a number from 0 to 1")
        if not _is_number(self.most) or self.most != int(self.most) or self.most < 1:
            raise UserError(f"most is {shorten(self.most)}", fix="give a whole number of at least 1")

    def class_numbers(self, names: Sequence[str]) -> list[int] | None:
        """Of a network with these class names; None for all."""
        if self.classes is None:
            return None
        several = [self.classes] if isinstance(self.classes, str | int) else list(self.classes)
        return [_class_number(one, names) for one in several]


def _class_number(given: int | str, names: Sequence[str]) -> int:
    """A number is a class number, even if the name of another class is that number."""
    if isinstance(given, str) and given in names:
        return list(names).index(given)
    if _is_number(given) and not isinstance(given, str) and given == int(given) and 0 <= given < len(names):
        return int(given)
    known = ", ".join(f"{number} {name}" for number, name in enumerate(names[:_SHOWN_CLASSES]))
    more = f", … {len(names) - 1} {names[-1]}" if len(names) > _SHOWN_CLASSES else ""
    hint = nearest(given, names) if isinstance(given, str) else ""
    raise UserError(f"there is no class {shorten(given)}{hint}", fix=f"the network knows {known}{more}")


def _is_number(value: object) -> bool:
    """Of any library: numpy's too."""
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False


@dataclass(frozen=True)
class FrameDetections:
    """A frame and its detections."""

    frame: Frame
    detections: Detections


class ImageDetector:
    """`Detector` without training and evaluating.

    Several weights form an ensemble. `cfg` names the network for weights that do not hold theirs. `size` is the long
    side images are resized to, for YOLOX also height and width, by default as in training.
    """

    def __init__(
        self,
        weights: str | Path | Sequence[str | Path],
        *,
        cfg: str | None = None,
        size: int | Sequence[int] | None = None,
        device: str = "",
        precision: Name = "auto",
        head_config: str | None = None,
    ) -> None:
        files = [weights] if isinstance(weights, str | Path) else list(weights)
        if not files:
            raise UserError("no weights are given", fix='name a file: Detector("best.pt")')
        trained = read_all_trained(files, cfg, head_config)
        self.weights, self.cfg, self.device = tuple(str(file) for file in files), cfg, device
        self.names = trained[0].names
        self.shape = shape_of(trained, None if size is None else _checked_size(size))
        self.precision = Precision.choose(precision, device_of(device))
        self.predictor = Predictor([one.model for one in trained], self.precision)

    @property
    def size(self) -> int:
        """The long side images are resized to; `shape` is height and width."""
        return max(self.shape)

    @property
    def model(self) -> torch.nn.Module:
        """The network, or the first of several."""
        return self.predictor.models[0]

    def predict(
        self,
        pictures: str | Path | Image | Sequence[str | Path | Image],
        *,
        conf: float = 0.25,
        iou: float = 0.45,
        classes: Sequence[int | str] | None = None,
        agnostic: bool = False,
        most: int = 300,
        augment: bool = False,
    ) -> list[Detections]:
        """Of each image: an array [height, width, 3] of blue, green and red, or what `--source` may name.

        A folder, a glob or a video gives as many entries as it has images; for a live stream use `stream`. `classes`
        are numbers or names.
        """
        chosen = DetectionFilter(conf=conf, iou=iou, classes=classes, agnostic=agnostic, most=most, augment=augment)
        several = [pictures] if isinstance(pictures, str | Path | np.ndarray) else list(pictures)
        found: list[Detections] = []
        for are_names, some in groupby(several, key=lambda one: isinstance(one, str | Path)):
            if are_names:
                sources = (frame_batches(str(name), _MOST_AT_ONCE, on_fault=raise_fault) for name in some)
                found += [one.detections for frames in sources for one in self.detect_in(frames, chosen)]
            else:
                found += self.detect([checked_picture(one) for one in some], chosen)
        return found

    def stream(
        self, source: str | Path, *, batch: int = 16, every: int = 1, on_fault: OnFault | None = None, **settings: Any
    ) -> Iterator[FrameDetections]:
        """The frames of a source one by one with their detections, while a thread reads those that follow.

        `settings` are those of `predict`; `every` N uses every N-th frame of a video. What is wrong with one file or
        stream of several goes to `on_fault`, and the others continue; without it, it is raised.
        """
        batches = frame_batches(str(source), batch, every=every, on_fault=on_fault or raise_fault)
        return self.detect_in(batches, DetectionFilter(**settings))

    def detect_in(self, batches: Generator[list[Frame]], chosen: DetectionFilter) -> Iterator[FrameDetections]:
        """As `stream`, for batches of frames."""
        chosen.class_numbers(self.names)  # an unknown class is reported before anything is read
        return (
            found
            for frames in read_ahead(batches, _BATCHES_AHEAD)
            for found in map(FrameDetections, frames, self.detect([frame.image for frame in frames], chosen))
        )

    def detect(self, images: Sequence[Image], chosen: DetectionFilter) -> list[Detections]:
        """Of each image; those that become equally large are one batch, in whatever order they come."""
        inputs = self.predictor.inputs
        thresholds = Thresholds(
            conf=chosen.conf, iou=chosen.iou, multi_label=False, agnostic=chosen.agnostic,
            classes=chosen.class_numbers(self.names), max_detections=chosen.most,
        )  # fmt: skip
        fitted = [fit(image, self.shape, self.predictor.stride, inputs) for image in images]
        places_of: dict[tuple[int, ...], list[int]] = {}
        for place, (input_, _, _) in enumerate(fitted):
            places_of.setdefault(input_.shape, []).append(place)
        found: dict[int, Detections] = {}
        for places in places_of.values():
            for start in range(0, len(places), _MOST_AT_ONCE):
                batch = places[start : start + _MOST_AT_ONCE]
                levels = np.stack([fitted[place][0] for place in batch])
                colours = np.ascontiguousarray(levels[..., ::-1] if inputs.rgb else levels)
                predictions = self.predictor(torch.from_numpy(colours).permute(0, 3, 1, 2), chosen.augment)
                for place, one in zip(batch, thresholds.detections(predictions), strict=True):
                    _, gain, pad = fitted[place]
                    height, width = images[place].shape[:2]
                    found[place] = one.in_original(gain, pad, (width, height))
        return [found[place] for place in range(len(images))]


def _checked_size(size: object) -> tuple[int, ...]:
    sides = tuple(size) if isinstance(size, tuple | list) else (size,)
    if len(sides) not in (1, 2) or not all(isinstance(side, int) and _SIZES[0] <= side <= _SIZES[1] for side in sides):
        what = f"size is {shorten(size)}"
        fix = f"give whole pixels of the long side, {_SIZES[0]} to {_SIZES[1]:,}; for YOLOX also (height, width)"
        raise UserError(what, fix=fix)
    return sides


def raise_fault(fault: UserError) -> None:
    """What is done about faults of sources unless a caller wants to hear of them."""
    if not isinstance(fault, StreamEndedError):
        raise fault
