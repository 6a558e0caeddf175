"""A trained detector, ready to be asked: pictures in, detections in their pixels out."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import cv2
import numpy as np
import torch

from yolofast.augment.plan import FILL
from yolofast.checkpoint.load import apply_weights
from yolofast.checkpoint.read import read_weights
from yolofast.decoding import decode
from yolofast.engine.devices import device_of
from yolofast.engine.precision import Precision
from yolofast.errors import UserError
from yolofast.evaluate.nms import non_max_suppression
from yolofast.model.network import build_model
from yolofast.pixels import Image
from yolofast.structures import Detections

_DEFAULT_SIZE = 640


class Detector:
    """`Detector("best.pt").predict("street.jpg")`.

    `cfg` names the network for weights that do not hold theirs. `size` is the long side pictures are resized to; they
    are then padded no further than the network needs.
    """

    def __init__(
        self, weights: str | Path, *, cfg: str | None = None, size: int | None = None, device: str = ""
    ) -> None:
        file = read_weights(weights)
        graph = cfg or file.graph
        if graph is None:
            what = f"a {file.kind} does not say which network it belongs to"
            raise UserError(what, where=weights, fix='name it: Detector("weights.pt", cfg="yolov7-tiny")')
        model = build_model(graph, file.nc, file.head_config)
        apply_weights(model, file, Path(weights), transfer=False)
        self.names = file.names or model.names
        self.precision = Precision.choose("auto", device_of(device))
        self.model = model.to(self.precision.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self.size = size or _DEFAULT_SIZE

    def predict(
        self,
        pictures: str | Path | Image | Sequence[str | Path | Image],
        *,
        conf: float = 0.25,
        iou: float = 0.45,
        classes: Sequence[int] | None = None,
        agnostic: bool = False,
        most: int = 300,
    ) -> list[Detections]:
        """Of each picture: a file, or an array [height, width, 3] of blue, green and red."""
        several = [pictures] if isinstance(pictures, str | Path | np.ndarray) else list(pictures)
        images = [read_picture(one) if isinstance(one, str | Path) else one for one in several]
        found: list[Detections] = []
        fitted = [fit(image, self.size, max(self.model.layout.strides)) for image in images]
        for _, some in groupby(range(len(fitted)), key=lambda place: fitted[place][0].shape):
            places = list(some)
            predictions = self._ask(np.stack([fitted[place][0] for place in places]))
            detections = non_max_suppression(
                predictions, conf, iou, multi_label=False, agnostic=agnostic, classes=classes, max_detections=most
            )
            for place, one in zip(places, detections, strict=True):
                _, gain, pad = fitted[place]
                height, width = images[place].shape[:2]
                found.append(one.in_original(gain, pad, (width, height)))
        return found

    @torch.no_grad()
    def _ask(self, inputs: Image) -> torch.Tensor:
        levels = torch.from_numpy(np.ascontiguousarray(inputs[..., ::-1])).to(self.precision.device)
        images = (levels.permute(0, 3, 1, 2).float() / 255).contiguous(memory_format=torch.channels_last)
        with self.precision.autocast():
            raw = self.model(images)
        return decode(raw, self.model)


def read_picture(path: str | Path) -> Image:
    """Turned as its EXIF data says."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path) from error
    picture = cv2.imdecode(content, cv2.IMREAD_COLOR) if len(content) else None
    if picture is None:
        raise UserError("is not a picture, or is damaged", where=path, fix="give JPEG, PNG, BMP, WebP or TIFF files")
    return np.asarray(picture, np.uint8)


def fit(image: Image, size: int, stride: int) -> tuple[Image, tuple[float, float], tuple[int, int]]:
    """The picture with its long side at `size`, padded on both sides to multiples of the stride; gain and pad."""
    height, width = image.shape[:2]
    ratio = size / max(height, width)
    narrow, low = max(round(width * ratio), 1), max(round(height * ratio), 1)
    resized = image if ratio == 1 else cv2.resize(image, (narrow, low), interpolation=cv2.INTER_LINEAR)
    room_x, room_y = -narrow % stride, -low % stride
    left, top = round(room_x / 2 - 0.1), round(room_y / 2 - 0.1)
    padded = cv2.copyMakeBorder(
        resized, top, room_y - top, left, room_x - left, cv2.BORDER_CONSTANT, value=(FILL, FILL, FILL)
    )
    return np.asarray(padded, np.uint8), (narrow / width, low / height), (left, top)
