"""A trained detector applied to images, videos and streams, with the detection settings that Python callers give."""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from yolofast.detect.captured import CapturedDetector
from yolofast.detect.networks import TrainedModel, read_all_trained, shape_of
from yolofast.detect.predictor import Predictor
from yolofast.detect.results import ImageDetections, of_frame, of_image
from yolofast.errors import UserError, nearest, shorten
from yolofast.evaluate.nms import Thresholds
from yolofast.export.runtimes.network import ExportedNetwork
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.media.given_pictures import Channels, is_one, name_of, pictures_of
from yolofast.media.pictures import Fitted, fit
from yolofast.media.sources import frame_batches, source_name
from yolofast.media.streams import OnFault, StreamEndedError
from yolofast.pixels import Image
from yolofast.precision import Name, Precision, device_of
from yolofast.structures import Detections

_SHOWN_CLASSES = 20
_MOST_AT_ONCE = 32
_BATCHES_AHEAD = 1
Gear = Literal["eager", "graph"]
"""As written, or captured as a CUDA graph with all that is before and behind the network."""
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
        one_alone = isinstance(self.classes, str) or not isinstance(self.classes, Iterable)
        several: Iterable[Any] = [self.classes] if one_alone else self.classes
        return [_class_number(one, names) for one in several]


def filter_of(settings: Mapping[str, Any]) -> DetectionFilter:
    """Unknown names are refused with the nearest."""
    known = [field.name for field in fields(DetectionFilter)]
    for name in settings:
        if name not in known:
            raise UserError(f"there is no setting {name!r}{nearest(name, known)}", fix=f"use {', '.join(known)}")
    return DetectionFilter(**settings)


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
    detections: ImageDetections


Look = Callable[[Tensor], None]
"""Gets predictions `[B, N, 5 + nc]`."""
Picture = Any
"""The name of a file or other source, its bytes, an image of PIL's, an array, a tensor."""


class ImageDetector:
    """`Detector` without training and evaluating.

    Several weights form an ensemble. `cfg` names the network for weights that do not hold theirs. `size` is the long
    side images are resized to, for YOLOX also height and width, by default as in training. With
    `gear="graph"` all work from pictures to boxes is one captured graph of a GPU (`captured.py`).
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
        gear: Gear = "eager",
    ) -> None:
        if gear not in get_args(Gear):
            raise UserError(f"gear is {shorten(gear)}", fix=f"use one of {', '.join(get_args(Gear))}")
        files = [weights] if isinstance(weights, str | Path) or not isinstance(weights, Iterable) else list(weights)
        if not files:
            raise UserError("no weights are given", fix='name a file: Detector("best.pt")')
        for file in files:
            if not isinstance(file, str | Path):
                raise UserError(f"weights are {type(file).__name__}: {shorten(file)}", fix="name a file")
        trained = read_all_trained(files, cfg, head_config, device)
        self.weights, self.cfg, self.device = tuple(str(file) for file in files), cfg, device
        self.names = trained[0].names
        self.shape = shape_of(trained, None if size is None else checked_size(size))
        self.precision = Precision.choose(precision, device_of(device))
        self._captured = _captured(trained, self.shape, self.precision) if gear == "graph" else None
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
        pictures: Picture | Iterable[Picture],
        *,
        channels: Channels | None = None,
        conf: float = 0.25,
        iou: float = 0.45,
        classes: Sequence[int | str] | None = None,
        agnostic: bool = False,
        most: int = 300,
        augment: bool = False,
    ) -> list[ImageDetections]:
        """Of each image: what `--source` may name, bytes of a file, PIL's images, arrays, tensors, or several of these.

        A folder, a glob or a video gives as many entries as it has images; for a live stream use `stream`. Arrays are
        [height, width, 3] of blue, green, red, tensors [3, height, width] of red, green, blue, unless `channels` is
        "rgb" or "bgr"; grey and a fourth channel are understood, floats are from 0 to 1. With an axis more they are
        several images. `classes` are numbers or names.
        """
        chosen = DetectionFilter(conf=conf, iou=iou, classes=classes, agnostic=agnostic, most=most, augment=augment)
        chosen.class_numbers(self.names)
        found: list[ImageDetections] = []
        for are_names, some in groupby(_several(pictures), key=lambda one: isinstance(one, str | Path)):
            if are_names:
                sources = (frame_batches(source_name(name), _MOST_AT_ONCE, on_fault=raise_fault) for name in some)
                found += [one for frames in sources for one in self._found_in(frames, chosen)]
            else:
                held = [(image, name_of(one)) for one in some for image in pictures_of(one, channels)]
                seen = self.detect([image for image, _ in held], chosen)
                found += [of_image(one, self.names, *place) for one, place in zip(seen, held, strict=True)]
        return found

    def stream(
        self, source: str | Path, *, batch: int = 16, every: int = 1, on_fault: OnFault | None = None, **settings: Any
    ) -> Iterator[FrameDetections]:
        """The frames of a source one by one with their detections, while a thread reads those that follow.

        `settings` are those of `predict`; `every` N uses every N-th frame of a video or image of a folder, and their
        numbers stay. What is wrong with one file or stream of several goes to `on_fault`, and the others continue;
        without it, it is raised.
        """
        batches = frame_batches(source_name(source), batch, every=every, on_fault=on_fault or raise_fault)
        seen = self.detect_in_ways(batches, [filter_of(settings)])
        return (FrameDetections(frame, of_frame(found, self.names, frame, keep=True)) for frame, (found,) in seen)

    def _found_in(self, batches: Generator[list[Frame]], chosen: DetectionFilter) -> Iterator[ImageDetections]:
        seen = self.detect_in_ways(batches, [chosen])
        return (of_frame(found, self.names, frame, keep=False) for frame, (found,) in seen)

    def detect_in_ways(
        self, batches: Generator[list[Frame]], ways: Sequence[DetectionFilter], look: Look | None = None
    ) -> Generator[tuple[Frame, tuple[Detections, ...]]]:
        """The frames, each with what every one of `ways` leaves; the network runs once.

        `look` gets what it predicts for each batch, before anything is filtered.
        """
        for way in ways:
            way.class_numbers(self.names)  # an unknown class is reported before anything is read
        return (
            found
            for frames in read_ahead(batches, _BATCHES_AHEAD)
            for found in zip(frames, self._detect([frame.image for frame in frames], ways, look=look), strict=True)
        )

    def fitted(self, images: Sequence[Image]) -> list[Fitted]:
        """As the network takes them."""
        return [fit(image, self.shape, self.predictor.stride, self.predictor.inputs) for image in images]

    def detect(
        self, images: Sequence[Image], chosen: DetectionFilter, fitted: Sequence[Fitted] | None = None
    ) -> list[Detections]:
        """Of each image; those that become equally large are one batch, in whatever order they come.

        `fitted` are the images as `fitted` makes them, for callers that have a use for them besides.
        """
        return [found for (found,) in self._detect(images, [chosen], fitted)]

    def _detect(
        self, images: Sequence[Image], ways: Sequence[DetectionFilter], fitted: Sequence[Fitted] | None = None,
        look: Look | None = None,
    ) -> list[tuple[Detections, ...]]:  # fmt: skip
        """All ways are augmented as the first is."""
        inputs = self.predictor.inputs
        thresholds = [
            Thresholds(
                conf=way.conf, iou=way.iou, multi_label=False, agnostic=way.agnostic,
                classes=way.class_numbers(self.names), max_detections=way.most,
            )
            for way in ways
        ]  # fmt: skip
        if self._captured is not None and len(ways) == 1 and not ways[0].augment and look is None:
            return [(one,) for one in self._captured.detect(images, thresholds[0])]
        fitted = self.fitted(images) if fitted is None else fitted
        places_of: dict[tuple[int, ...], list[int]] = {}
        for place, one in enumerate(fitted):
            places_of.setdefault(one.input.shape, []).append(place)
        found: dict[int, tuple[Detections, ...]] = {}
        for places in places_of.values():
            for start in range(0, len(places), _MOST_AT_ONCE):
                batch = places[start : start + _MOST_AT_ONCE]
                levels = np.stack([fitted[place].input for place in batch])
                colours = np.ascontiguousarray(levels[..., ::-1] if inputs.rgb else levels)
                predictions = self.predictor(torch.from_numpy(colours).permute(0, 3, 1, 2), ways[0].augment)
                if look is not None:
                    look(predictions)
                by_way = [one.detections(predictions) for one in thresholds]
                for place, several in zip(batch, zip(*by_way, strict=True), strict=True):
                    lies = fitted[place].place
                    height, width = images[place].shape[:2]
                    found[place] = tuple(one.in_original(lies.gain, lies.pad, (width, height)) for one in several)
        return [found[place] for place in range(len(images))]


def _captured(trained: Sequence[TrainedModel], shape: tuple[int, int], precision: Precision) -> CapturedDetector:
    if len(trained) > 1 or isinstance(trained[0].model, ExportedNetwork):
        what = "several networks" if len(trained) > 1 else "an exported file"
        raise UserError(f"gear graph captures one network of torch, not {what}", fix="omit gear, or name one best.pt")
    return CapturedDetector(trained[0].model, shape, precision)


def _several(pictures: Any) -> Iterable[Any]:
    if isinstance(pictures, str | Path) or is_one(pictures):
        return [pictures]
    return pictures if isinstance(pictures, Iterable) else [pictures]


def checked_size(size: object) -> tuple[int, ...]:
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
