"""Pictures of identity switches and of misses: the object when it was matched last, and when another result has it, or
none.

Images are those of a MOTChallenge folder, `SEQ/img1/000001.jpg`, or lie in `SEQ/` or, of a single sequence, in the
folder itself. A sequence may also be a video: the one that its seqinfo.ini names, or `SEQ.mp4`. An image that is
missing or cannot be read costs its picture and a remark.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError, nearest_file
from yolofast.image_bytes import decode_image
from yolofast.pages.elements import Picture
from yolofast.report.tracks.objects import FollowedObject
from yolofast.report.tracks.switches import Switch, box_of, overlap_of_two
from yolofast.track.formats.mot import SEQINFO, read_seqinfo
from yolofast.track.formats.sequence import Floats, Sequence
from yolofast.track.score.prepare import Prepared

_Image = npt.NDArray[np.uint8]
_Shown = list[tuple[int, int | None]]
"""Frames, and the result that is drawn in each."""
_ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"}
_VIDEO_ENDINGS = (".mp4", ".avi", ".mkv", ".mov", ".webm")
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
    _told: set[str] = field(default_factory=set)
    _known: dict[str, dict[int, Path]] = field(default_factory=dict)
    _at: tuple[Path, int, cv2.VideoCapture] | None = None
    """The video that is open, and how many of its frames were passed."""

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            what = "is not a folder" if self.folder.exists() else f"does not exist{nearest_file(self.folder)}"
            raise UserError(what, where=self.folder, fix="give the folder that has SEQ/img1/000001.jpg …")

    def read(self, sequence: str, frame: int) -> _Image | None:
        path = self._of(sequence).get(frame)
        if path is None and not self._of(sequence):
            video = self._video(sequence)
            if video is not None:
                return self._of_video(video, frame)
        if path is None:
            self._say(f"there is no image of frame {frame} of {sequence} in {self.folder}")
            return None
        try:
            image = decode_image(path.read_bytes())
        except (OSError, cv2.error, MemoryError):
            image = None
        if image is None:
            self._say(f"{path} cannot be read")
            return None
        return image

    def _of(self, sequence: str) -> dict[int, Path]:
        if sequence not in self._known:
            places = [self.folder / sequence / "img1", self.folder / sequence]
            places += [self.folder / "img1", self.folder] if self.sequences == 1 else []
            found = next((images for place in places if place.is_dir() and (images := _images(place))), [])
            self._known[sequence] = _numbered(found)
        return self._known[sequence]

    def _video(self, sequence: str) -> Path | None:
        info = self.folder / sequence / SEQINFO
        named = [info.parent / read_seqinfo(info).images] if info.is_file() else []
        beside = (self.folder / f"{sequence}{ending}" for ending in _VIDEO_ENDINGS)
        return next((path for path in (*named, *beside) if path.is_file()), None)

    def _of_video(self, path: Path, frame: int) -> _Image | None:
        """Frames are counted, because a jump to one by its number misses it in some videos."""
        try:
            if self._at is None or self._at[0] != path or self._at[1] >= frame:
                self._at = path, 0, cv2.VideoCapture(str(path))
            _, passed, capture = self._at
            while passed < frame and capture.grab():
                passed += 1
            self._at = path, passed, capture
            there, image = capture.retrieve() if passed == frame else (False, None)
        except (UserError, cv2.error):
            there, image = False, None
        if not there or image is None:
            self._say(f"{path}: frame {frame} cannot be read")
            return None
        return np.asarray(image, np.uint8)

    def take_problems(self) -> list[str]:
        """Those that were not told yet."""
        found = [problem for problem in self.problems if problem not in self._told]
        self._told.update(found)
        return found

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


def picture_of_switch(switch: Switch, given: Prepared, images: FrameImages) -> Picture | None:
    """Two crops side by side."""
    event = switch.event
    assert event.last_frame is not None and event.from_id is not None and event.to_id is not None
    caption = (
        f"{event.sequence}, object {event.truth_id}: result {event.from_id} in frame {event.last_frame}, "
        f"result {event.to_id} in frame {event.frame} ({switch.cause})"
    )
    shown: _Shown = [(event.last_frame, event.from_id), (event.frame, event.to_id)]
    return _picture(event.sequence, event.truth_id, shown, given, images, caption)


def picture_of_miss(one: FollowedObject, given: Prepared, images: FrameImages) -> Picture | None:
    """The object when it was matched before, if it was, and in the middle of its longest miss."""
    first, last = one.longest_miss
    gap = (one.frames >= first) & (one.frames <= last)
    middle = int(one.frames[gap][gap.sum() // 2])
    before = np.flatnonzero((one.frames < first) & (one.result >= 0))
    shown: _Shown = [(int(one.frames[at]), int(one.result[at])) for at in before[-1:]]
    close = _closest(given.results, middle, box_of(given.truth, middle, one.id))
    reach = f"frame {first}" if first == last else f"frames {first}–{last}"
    caption = f"{one.sequence}, object {one.id}: missed in {reach}"
    caption += f", result {shown[0][1]} before" if shown else ", never followed before"
    caption += (
        "; no result overlaps it" if close is None else f"; result {close} overlaps it too little, or is another's"
    )
    return _picture(one.sequence, one.id, [*shown, (middle, close)], given, images, caption)


def _closest(results: Sequence, frame: int, truth: Floats) -> int | None:
    """The result that overlaps this box most."""
    low, high = np.searchsorted(results.frame, [frame, frame + 1])
    overlap = [overlap_of_two(box, truth) for box in results.box[low:high]]
    return int(results.id[low + int(np.argmax(overlap))]) if max(overlap, default=0.0) > 0 else None


def _picture(
    sequence: str,
    identity: int,
    shown: _Shown,
    given: Prepared,
    images: FrameImages,
    caption: str,
) -> Picture | None:
    """The object in these frames, side by side, each with a result."""
    sides: list[_Image] = []
    for frame, result in shown:
        image = images.read(sequence, frame)
        if image is None:
            return None
        box = np.zeros(0) if result is None else box_of(given.results, frame, result)
        title = f"{frame}: {'missed' if result is None else result}"
        sides += [np.full((_SIDE, 6, 3), 255, np.uint8)] if sides else []
        sides.append(_crop(image, box_of(given.truth, frame, identity), box, title))
    content = cv2.imencode(".jpg", np.hstack(sides), [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()
    return Picture(content, "jpeg", caption, f"crops of {caption}")


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
