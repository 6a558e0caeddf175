"""What detections look like, as vectors: the same object has nearly the same one in the next frame, and after a gap.

`NeckFeatures` needs no second network: it averages a map that the detector's own neck hands to its head over each box.
The finest map tells objects apart best: coarser ones see more of the surroundings, which change as things move
(docs/track-appearance.md). All vectors come from one map, so objects that grow or shrink stay comparable.
`OnnxReid` is a re-identification network that the user has.

Vectors are rows of float64, L2-normalised: the cosine distance of a and b is 1 - a·b.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, overload

import cv2
import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.errors import UserError, nearest_file, shorten
from yolofast.media.pictures import Fitted, Placement, checked_picture
from yolofast.pixels import Image
from yolofast.structures import Detections

Floats = npt.NDArray[np.float64]

_HEAD = "head"
"""What both families call what makes predictions of the neck's maps: a list, at inference a map per level."""
_SAMPLES = 8
"""Points per side of a box at which a map is read."""
_TINY = 1e-12
_AUGMENTED_PASSES = 3
_AT_ONCE = 32
"""Images in one pass, or crops."""
_MOST_PIXELS = 2**24
"""Of crops at once, which a file may say is any number: 200 MB."""
_MEAN, _DEVIATION = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet: red, green, blue."""
_USUAL_CROP = (256, 128)
"""Height and width, for networks that take any: those of networks for people."""
_PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class Appearance(ABC):
    """Where vectors come from."""

    @overload
    def features(self, images: Image, boxes: npt.ArrayLike) -> Floats: ...

    @overload
    def features(self, images: Sequence[Image], boxes: Sequence[npt.ArrayLike]) -> list[Floats]: ...

    def features(self, images: Any, boxes: Any) -> Any:
        """[n, d] for an image and boxes [n, 4], x1 y1 x2 y2 in its pixels; of several images a list of such."""
        if isinstance(images, np.ndarray):
            return self._of_all([checked_picture(images)], [_checked(boxes)])[0]
        several = [checked_picture(image) for image in images]
        if len(several) != len(boxes):
            raise UserError(f"{len(several)} images, but boxes of {len(boxes)}", fix="give boxes for each image")
        return self._of_all(several, [_checked(some) for some in boxes])

    @abstractmethod
    def _of_all(self, images: list[Image], boxes: list[Floats]) -> list[Floats]: ...


def _checked(boxes: npt.ArrayLike) -> Floats:
    found = np.asarray(boxes, np.float64)
    if found.size == 0:
        return found.reshape(0, 4)
    if found.ndim != 2 or found.shape[1] != 4 or not np.isfinite(found).all():
        raise UserError(f"boxes are {shorten(found.tolist())}", fix="give finite x1 y1 x2 y2, [n, 4]")
    return found


class NeckFeatures(Appearance):
    """Of a detector; of an ensemble, its first network."""

    def __init__(self, detector: ImageDetector, level: int = 0) -> None:
        """`level` counts the neck's maps from the finest."""
        self._detector, self._network = detector, detector.predictor.models[0]
        strides = self._network.layout.strides
        if not 0 <= level < len(strides):
            raise UserError(f"level is {shorten(level)}", fix=f"give one from 0 to {len(strides) - 1}")
        try:
            self._head = self._network.get_submodule(_HEAD)
        except AttributeError:
            what = f"the network {self._network.family} has no module {_HEAD!r} that is given the neck's maps"
            raise UserError(what, fix="give a re-identification network instead") from None
        self._map = sorted(range(len(strides)), key=strides.__getitem__)[level]
        self._stride = strides[self._map]

    def detect(
        self, images: Sequence[Image], chosen: DetectionFilter, fitted: Sequence[Fitted] | None = None
    ) -> list[tuple[Detections, Floats]]:
        """What the detector's `detect` finds, and what that looks like, from the same pass."""
        fitted = self._detector.fitted(images) if fitted is None else fitted
        found: list[tuple[Detections, Floats]] = []
        for _, group in groupby(zip(images, fitted, strict=True), key=lambda both: both[0].shape):
            some, inputs = zip(*group, strict=True)
            with self._watched() as maps:
                detections = self._detector.detect(some, chosen, inputs)
            first = maps[:: _AUGMENTED_PASSES if chosen.augment else 1]  # whole images, then augmented ones
            boxes = [_in_input(one.boxes, input_.place) for one, input_ in zip(detections, inputs, strict=True)]
            found += zip(detections, average_over_boxes(torch.cat(first), boxes, self._stride), strict=True)
        return found

    def _of_all(self, images: list[Image], boxes: list[Floats]) -> list[Floats]:
        predictor = self._detector.predictor
        found: list[Floats] = []
        for _, group in groupby(range(len(images)), key=lambda place: images[place].shape):
            places = list(group)
            for start in range(0, len(places), _AT_ONCE):
                some = places[start : start + _AT_ONCE]
                fitted = self._detector.fitted([images[i] for i in some])
                levels = np.stack([one.input for one in fitted])
                colours = np.ascontiguousarray(levels[..., ::-1] if predictor.inputs.rgb else levels)
                with self._watched() as maps:
                    predictor(torch.from_numpy(colours).permute(0, 3, 1, 2))
                placed = [_in_input(boxes[i], one.place) for i, one in zip(some, fitted, strict=True)]
                found += average_over_boxes(maps[0], placed, self._stride)
        return found

    @contextmanager
    def _watched(self) -> Iterator[list[Tensor]]:
        """The maps of each pass meanwhile."""
        maps: list[Tensor] = []

        def keep(head: object, inputs: tuple[Sequence[Tensor]]) -> None:
            maps.append(inputs[0][self._map].detach())

        handle = self._head.register_forward_pre_hook(keep)
        try:
            yield maps
        finally:
            handle.remove()


def _in_input(boxes: npt.NDArray[Any], place: Placement) -> Floats:
    gain, pad = (np.tile(np.array(two, np.float64), 2) for two in (place.gain, place.pad))
    return boxes.astype(np.float64) * gain + pad


def average_over_boxes(map_: Tensor, boxes: Sequence[Floats], stride: int) -> list[Floats]:
    """Of a map [B, C, H, W] and the boxes of each image, in input pixels: L2-normalised means [n, C].

    A box is read at a grid of 8 × 8 points, linearly between cells, as RoI align does.
    """
    count = max((len(some) for some in boxes), default=0)
    channels, (rows, columns) = map_.shape[1], map_.shape[2:]
    if count == 0:
        return [np.zeros((0, channels)) for _ in boxes]
    padded = np.zeros((len(boxes), count, 4))
    for place, some in enumerate(boxes):
        padded[place, : len(some)] = some
    box_BN4 = torch.from_numpy(padded).to(map_.device, torch.float32)
    steps = (torch.arange(_SAMPLES, device=map_.device) + 0.5) / _SAMPLES
    corner_BN2, size_BN2 = box_BN4[..., :2], box_BN4[..., 2:] - box_BN4[..., :2]
    along = corner_BN2[..., None] + size_BN2[..., None] * steps  # [B, N, 2, S]: x and y of the points
    along = 2 * along / (torch.tensor([columns, rows], device=map_.device) * stride)[:, None] - 1
    shape = (len(boxes), count, _SAMPLES, _SAMPLES)
    grid = torch.stack((along[:, :, 0, None, :].expand(shape), along[:, :, 1, :, None].expand(shape)), dim=-1)
    read = F.grid_sample(
        map_.float(), grid.flatten(2, 3), mode="bilinear", padding_mode="border", align_corners=False
    )  # [B, C, N, S²]
    means = read.mean(3).transpose(1, 2).double().cpu().numpy()
    return [_normalised(one[: len(some)]) for one, some in zip(means, boxes, strict=True)]


def _normalised(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return unit


class OnnxReid(Appearance):
    """A network in an ONNX file that makes vectors of crops [n, 3, height, width], normalised as for ImageNet.

    It is executed by onnxruntime, which `yolofast[reid]` installs.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            fix = "give a re-identification network as an ONNX file"
            raise UserError(f"does not exist{nearest_file(path)}", where=path, fix=fix)
        self._session = _session(self._path)
        given = self._session.get_inputs()
        shape = list(given[0].shape) if len(given) == 1 else []
        if len(shape) != 4 or shape[1] != 3:
            what = f"takes {[one.shape for one in given]}, not crops [n, 3, height, width]"
            raise UserError(what, where=path, fix="export the network with one input of images, channels first")
        self._name = given[0].name
        self._kind = np.float16 if "float16" in given[0].type else np.float32
        self._batch = shape[0] if isinstance(shape[0], int) else None
        """Crops it takes at once; None for any number."""
        height, width = (
            side if isinstance(side, int) else usual for side, usual in zip(shape[2:], _USUAL_CROP, strict=True)
        )
        if not (height > 0 < width and height * width * (self._batch or _AT_ONCE) <= _MOST_PIXELS):
            what = f"takes crops of {width}×{height} pixels, {self._batch or 'any number'} at once"
            raise UserError(what, where=path, fix="export the network for crops of usual sizes, as 128×256")
        self._size = width, height

    def _of_all(self, images: list[Image], boxes: list[Floats]) -> list[Floats]:
        crops = [crop(image, box, self._size) for image, some in zip(images, boxes, strict=True) for box in some]
        at_once = self._batch or _AT_ONCE
        rows = [self._run(crops[start : start + at_once]) for start in range(0, len(crops), at_once)]
        vectors = _normalised(np.concatenate(rows)) if rows else np.zeros((0, 0))
        ends = np.cumsum([len(some) for some in boxes])
        return list(np.split(vectors, ends[:-1]))

    def _run(self, crops: list[npt.NDArray[np.float32]]) -> Floats:
        batch = np.stack(crops).astype(self._kind)
        if self._batch is not None and len(batch) < self._batch:
            batch = np.concatenate((batch, np.zeros((self._batch - len(batch), *batch.shape[1:]), self._kind)))
        try:
            (found, *_) = self._session.run(None, {self._name: batch})
        except Exception as error:  # noqa: BLE001 - those of onnxruntime have nothing else in common
            what = f"cannot be run: {shorten(str(error).splitlines()[0])}"
            raise UserError(what, where=self._path, fix="check how it was exported") from None
        vectors = np.asarray(found, np.float64).reshape(len(batch), -1)[: len(crops)]
        if not np.isfinite(vectors).all():
            raise UserError("gives NaN or infinity", where=self._path, fix="export the network in float32")
        return vectors


def crop(image: Image, box: Floats, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """[3, height, width]: what is inside the box and the image, at least a pixel, in that width and height."""
    height, width = image.shape[:2]
    left, top = min(max(int(box[0]), 0), width - 1), min(max(int(box[1]), 0), height - 1)
    right, bottom = min(max(int(np.ceil(box[2])), left + 1), width), min(max(int(np.ceil(box[3])), top + 1), height)
    resized = cv2.resize(image[top:bottom, left:right], size, interpolation=cv2.INTER_LINEAR)
    colours = (resized[..., ::-1].astype(np.float32) / 255 - _MEAN) / _DEVIATION
    return np.ascontiguousarray(colours.transpose(2, 0, 1))


def _session(path: Path) -> Any:
    try:
        runtime = import_module("onnxruntime")
    except ImportError:
        what = "running it needs onnxruntime, which is not installed"
        fix = "pip install 'yolofast[reid]'; or use the detector's own features"
        raise UserError(what, where=path, fix=fix) from None
    providers = [name for name in _PROVIDERS if name in runtime.get_available_providers()]
    try:
        return runtime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # noqa: BLE001 - those of onnxruntime have nothing else in common
        what = f"is not an ONNX network: {shorten(str(error).splitlines()[0])}"
        raise UserError(what, where=path, fix="export it again") from None
