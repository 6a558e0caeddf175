"""Pictures of identity switches: the object when it was matched last, and when another result has it.

Images are those of a MOTChallenge folder, `SEQ/img1/000001.jpg`, or lie in `SEQ/` or, of a single sequence, in the
folder itself. One that is missing or cannot be read costs its picture and a remark.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, nearest_file
from yolofast.pages.elements import Picture
from yolofast.report.tracks.switches import Switch, box_of
from yolofast.track.formats.sequence import Floats
from yolofast.track.score.prepare import Prepared

_Image = npt.NDArray[np.uint8]
_ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"}
_SIDE, _QUALITY, _ROOM = 260, 82, 1.2
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# Blue, green, red. Blue and orange differ for people who do not see red or green; words say it too.
_TRUTH, _RESULT = (178, 114, 0), (0, 149, 230)


@dataclass
class FrameImages:
    """Where the images of sequences lie."""

    folder: Path
    sequences: int
    problems: list[str] = field(default_factory=list)
    _known: dict[str, dict[int, Path]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            what = f"is not a folder{nearest_file(self.folder)}"
            raise UserError(what, where=self.folder, fix="give the folder that has SEQ/img1/000001.jpg …")

    def read(self, sequence: str, frame: int) -> _Image | None:
        path = self._of(sequence).get(frame)
        if path is None:
            self._say(f"there is no image of frame {frame} of {sequence} in {self.folder}")
            return None
        try:
            image = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
        except (OSError, cv2.error):
            image = None
        if image is None:
            self._say(f"{path} cannot be read")
            return None
        return np.asarray(image, np.uint8)

    def _of(self, sequence: str) -> dict[int, Path]:
        if sequence not in self._known:
            places = [self.folder / sequence / "img1", self.folder / sequence]
            places += [self.folder / "img1", self.folder] if self.sequences == 1 else []
            found = next((images for place in places if place.is_dir() and (images := _images(place))), [])
            self._known[sequence] = _numbered(found)
        return self._known[sequence]

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _images(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.suffix.lower() in _ENDINGS)


def _numbered(paths: list[Path]) -> dict[int, Path]:
    """By the number at the end of their names, if those are different; else in their order."""
    ends = [re.search(r"(\d{1,9})$", path.stem) for path in paths]
    numbers = [int(end[1]) for end in ends if end is not None]
    if len(set(numbers)) == len(paths) and numbers and min(numbers) > 0:
        return dict(zip(numbers, paths, strict=True))
    return dict(enumerate(paths, 1))


def picture_of(switch: Switch, given: Prepared, images: FrameImages) -> Picture | None:
    """Two crops side by side."""
    event = switch.event
    assert event.last_frame is not None and event.from_id is not None and event.to_id is not None
    sides = []
    for frame, result in ((event.last_frame, event.from_id), (event.frame, event.to_id)):
        image = images.read(event.sequence, frame)
        if image is None:
            return None
        truth = box_of(given.truth, frame, event.truth_id)
        sides.append(_crop(image, truth, box_of(given.results, frame, result), f"{frame}: {result}"))
    whole = np.hstack([sides[0], np.full((_SIDE, 6, 3), 255, np.uint8), sides[1]])
    content = cv2.imencode(".jpg", whole, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()
    caption = (
        f"{event.sequence}, object {event.truth_id}: result {event.from_id} in frame {event.last_frame}, "
        f"result {event.to_id} in frame {event.frame} ({switch.cause})"
    )
    return Picture(content, "jpeg", caption, f"two crops of {caption}")


def _crop(image: _Image, truth: Floats, result: Floats, text: str) -> _Image:
    """A square around the object, with room; what lies outside the image is grey."""
    centre, side = (truth[:2] + truth[2:]) / 2, max(8.0, _ROOM * 2 * max(truth[2:] - truth[:2]) / 2 + 16)
    scale = _SIDE / side
    corner = centre - side / 2
    move = np.array([[scale, 0, -corner[0] * scale], [0, scale, -corner[1] * scale]])
    canvas = cv2.warpAffine(image, move, (_SIDE, _SIDE), borderValue=(128, 128, 128))
    for box, colour in ((truth, _TRUTH), (result, _RESULT)):
        if len(box):
            left, top, right, bottom = ((box - np.tile(corner, 2)) * scale).round().astype(int).tolist()
            cv2.rectangle(canvas, (left, top), (right, bottom), colour, 2, cv2.LINE_AA)
    cv2.rectangle(canvas, (0, 0), (_SIDE, 18), (40, 40, 40), cv2.FILLED)
    cv2.putText(canvas, f"frame {text}", (4, 13), _FONT, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return np.asarray(canvas, np.uint8)
