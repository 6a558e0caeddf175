"""What `Detector` gives to people: the detections of one image, with its name, its classes and ways to look at them.

Evaluation and tracking use `Detections` alone, three arrays. This is the same with what is needed to draw, save and
convert it. Images of files are not kept, since a folder may hold thousands: they are read again when they are drawn.
"""

import base64
import html
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, shorten
from yolofast.evaluate.mosaic_picture import draw_boxes
from yolofast.extensions import needed
from yolofast.files.atomic_file import write_output
from yolofast.media.frames import Frame
from yolofast.media.given_pictures import Channels, check_channels, pictures_of
from yolofast.media.pictures import read_picture
from yolofast.media.window import show_until_key, why_no_window
from yolofast.pixels import Image
from yolofast.structures import Detections

_FORMATS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
_LONGEST_SHOWN = 1024
"""Pixels of the long side in a notebook, which keeps all that it shows."""
_MOST_ROWS = 20
_WIDEST_LINE = 255


class Detection(NamedTuple):
    """One object."""

    box: npt.NDArray[np.float32]
    """x1, y1, x2, y2 in pixels."""
    score: float
    label: int
    """The number of its class."""
    name: str
    """Of its class."""


@dataclass(frozen=True, repr=False, eq=False)
class ImageDetections(Detections):
    """Best first. `found[0]` is one `Detection`; slices, masks and lists of places give as many of them."""

    names: tuple[str, ...]
    """Of all classes that the network knows, by label."""
    height: int
    width: int
    path: str | None = None
    """The file, address or camera; None for an image that was given as such."""
    frame: int | None = None
    """Its number in a video, from 0."""
    kept: Image | None = field(default=None, repr=False)
    """The image, where it cannot be read again."""

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self.height, self.width

    @property
    def image(self) -> Image:
        """uint8 [height, width, 3], blue, green, red; that of a file is read again."""
        if self.kept is not None:
            return self.kept
        if self.path is None or self.frame is not None:
            fix = "give it: found.plot(image), or use detector.stream, which keeps each frame while it is looked at"
            raise UserError("the image is not kept: it is a frame of a video", where=self.path, fix=fix)
        image = read_picture(self.path)
        if image.shape[:2] != self.shape:
            what = f"has changed: it has {image.shape[1]}×{image.shape[0]} pixels, and had {self.width}×{self.height}"
            raise UserError(what, where=self.path, fix="detect its objects again")
        return image

    def __iter__(self) -> Iterator[Detection]:
        columns = (self.boxes, self.scores.tolist(), self.labels.tolist())
        return (Detection(box, score, label, self.names[label]) for box, score, label in zip(*columns, strict=True))

    @overload
    def __getitem__(self, chosen: int) -> Detection: ...
    @overload
    def __getitem__(
        self, chosen: slice | Sequence[int] | npt.NDArray[np.bool_] | npt.NDArray[np.int64]
    ) -> "ImageDetections": ...
    def __getitem__(self, chosen: Any) -> "Detection | ImageDetections":
        if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool):
            if not -len(self) <= chosen < len(self):
                raise IndexError(f"there is no detection {chosen}: there are {len(self)}")
            label = int(self.labels[chosen])
            return Detection(self.boxes[chosen], float(self.scores[chosen]), label, self.names[label])
        try:
            which = chosen if isinstance(chosen, slice) else np.asarray(chosen, None if len(chosen) else np.int64)
            return replace(self, boxes=self.boxes[which], scores=self.scores[which], labels=self.labels[which])
        except (IndexError, TypeError):
            what = f"{len(self)} detections cannot be chosen from by {shorten(chosen)}"
            raise UserError(what, fix="give a place, a slice, places, or a mask of as many") from None

    def __repr__(self) -> str:
        frame = "" if self.frame is None else f" frame {self.frame}"
        return f"<{self.path or 'image'}{frame}, {self.width}×{self.height}: {listed(self, self.names)}>"

    def plot(self, image: object = None, *, line_width: int | None = None, channels: Channels = "bgr") -> Image:
        """A copy of the image with its boxes; `image` is drawn on instead, if it is given."""
        if line_width is not None and not (isinstance(line_width, int) and 1 <= line_width <= _WIDEST_LINE):
            raise UserError(f"line_width is {shorten(line_width)}", fix=f"give whole pixels, 1 to {_WIDEST_LINE}")
        return _ordered(drawn(self._image_or(image, channels), self, self.names, line_width), channels)

    def crop(self, image: object = None, *, channels: Channels = "bgr") -> list[Image]:
        """A picture of each object, of one pixel at least."""
        return [_ordered(one, channels) for one in crops(self._image_or(image, channels), self)]

    def save(self, path: str | Path, image: object = None, *, line_width: int | None = None) -> Path:
        """The drawn image as a file, whose ending says the format; of a folder that is there, under the image's name.

        The image itself is never overwritten.
        """
        target = Path(path)
        if target.is_dir():
            number = "" if self.frame is None else f"_{self.frame}"
            target = target / f"{Path(self.path or 'image').stem}{number}.jpg"
        if target.suffix.lower() not in _FORMATS:
            raise UserError("is no name of an image", where=target, fix=f"end it with {', '.join(_FORMATS)}")
        if self.path is not None and target.exists() and Path(self.path).exists() and target.samefile(self.path):
            what = "is the image itself, which would be lost"
            raise UserError(what, where=target, fix="name another file, or another folder")
        return write_output(target, encoded(self.plot(image, line_width=line_width), target.suffix))

    def show(self) -> None:
        """In a notebook below the cell; elsewhere in a window, until a key is pressed."""
        if _in_notebook():
            importlib.import_module("IPython.display").display(self)
        elif why := why_no_window():
            raise UserError(f"nothing can be shown: {why}", fix='save it instead: found.save("found.jpg")')
        else:
            show_until_key(self.path or "yolofast", self.plot())

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; boxes and scores are rounded as in the files of `yolofast predict`."""
        place = {} if self.frame is None else {"frame": self.frame}
        found = plain_rows(self, self.names)
        return {"path": self.path, **place, "width": self.width, "height": self.height, "detections": found}

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row per object: x1, y1, x2, y2, score, label, name."""
        corners = {name: self.boxes[:, place] for place, name in enumerate(("x1", "y1", "x2", "y2"))}
        columns = {**corners, "score": self.scores, "label": self.labels, "name": self._names_of_each()}
        return needed("pandas", "pandas", "a data frame").DataFrame(columns)

    def to_supervision(self) -> Any:
        """A `supervision.Detections`, the names of the classes in its data."""
        return needed("supervision", "supervision", "to_supervision").Detections(
            xyxy=self.boxes,
            confidence=self.scores,
            class_id=self.labels,
            data={"class_name": np.array(self._names_of_each(), dtype=str)},
        )

    def _repr_html_(self) -> str:
        """For notebooks: the drawn image, if there is one, and the surest objects."""
        rows = "".join(
            f"<tr><td>{html.escape(one.name)}</td><td>{one.score:.2f}</td>"
            f"<td>{' '.join(f'{value:.0f}' for value in one.box)}</td></tr>"
            for one in self[:_MOST_ROWS]
        )
        more = f"<p>… {len(self) - _MOST_ROWS} more</p>" if len(self) > _MOST_ROWS else ""
        head = "<tr><th>class</th><th>score</th><th>x1 y1 x2 y2</th></tr>"
        table = f"<table>{head}{rows}</table>{more}" if rows else ""
        return f"<div>{self._picture_html()}<p>{html.escape(repr(self)[1:-1])}</p>{table}</div>"

    def _picture_html(self) -> str:
        try:
            picture = self.plot()
        except UserError:  # a frame of a video, or a file that is gone
            return ""
        scale = _LONGEST_SHOWN / max(picture.shape[:2])
        if scale < 1:
            size = max(round(self.width * scale), 1), max(round(self.height * scale), 1)
            picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
        content = base64.b64encode(encoded(picture, ".jpg")).decode()
        return f'<img src="data:image/jpeg;base64,{content}" style="max-width:100%" alt="detections">'

    def _image_or(self, given: object, channels: Channels) -> Image:
        if given is None:
            check_channels(channels)
            return self.image
        (image,) = pictures_of(given, channels)
        if image.shape[:2] != self.shape:
            what = (
                f"the image has {image.shape[1]}×{image.shape[0]} pixels, its boxes are for {self.width}×{self.height}"
            )
            raise UserError(what, fix="give the image that they were found in")
        return image

    def _names_of_each(self) -> list[str]:
        return [self.names[label] for label in self.labels.tolist()]


def of_frame(found: Detections, names: tuple[str, ...], frame: Frame, *, keep: bool) -> ImageDetections:
    """`keep` the image even of a video or a file: the caller has it anyway."""
    height, width = frame.image.shape[:2]
    lasts = frame.video is not None or os.path.isfile(frame.name)
    return ImageDetections(
        found.boxes, found.scores, found.labels, names, height, width, frame.name,
        None if frame.video is None else frame.number, frame.image if keep or not lasts else None,
    )  # fmt: skip


def of_image(found: Detections, names: tuple[str, ...], image: Image, path: str | None) -> ImageDetections:
    height, width = image.shape[:2]
    return ImageDetections(found.boxes, found.scores, found.labels, names, height, width, path, None, image)


def listed(found: Detections, names: Sequence[str]) -> str:
    """`2 car, 1 dog`, in the order of the surest of each."""
    counts = Counter(names[label] for label in found.labels.tolist())
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"


def plain_rows(found: Detections, names: Sequence[str]) -> list[dict[str, Any]]:
    columns = (found.boxes.tolist(), found.scores.tolist(), found.labels.tolist())
    return [
        {
            "class": label,
            "name": names[label],
            "score": round(score, 5),
            "box": [round(value, 2) for value in box],
        }
        for box, score, label in zip(*columns, strict=True)
    ]


def drawn(image: Image, found: Detections, names: Sequence[str], line_width: int | None = None) -> Image:
    """A copy with the boxes; lines are as wide as suits the image unless that is given."""
    copy = image.copy()
    draw_boxes(copy, found, 1.0, names, scores=True, line_width=line_width or round(0.001 * sum(copy.shape[:2])) + 1)
    return copy


def crops(image: Image, found: Detections) -> list[Image]:
    height, width = image.shape[:2]
    pictures = []
    for left, top, right, bottom in found.boxes.round().astype(int).tolist():
        left, top = min(max(left, 0), width - 1), min(max(top, 0), height - 1)
        pictures.append(image[top : max(bottom, top + 1), left : max(right, left + 1)].copy())
    return pictures


def encoded(image: Image, suffix: str) -> bytes:
    return cv2.imencode(suffix.lower(), image)[1].tobytes()


def _ordered(image: Image, channels: Channels) -> Image:
    return np.ascontiguousarray(image[..., ::-1]) if channels == "rgb" else image


def _in_notebook() -> bool:
    """Whether a kernel shows what is displayed; IPython in a terminal does not."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"
