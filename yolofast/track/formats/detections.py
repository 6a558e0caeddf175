"""Stored detections: what a network saw in one video, so that trackers can be tried without the network.

One `.npz` per source holds columns, sorted by frame. MOT's `det.txt` (with `seqinfo.ini` beside it) and COCO results
are read too. Nothing in a file is executed, and its size is checked before memory is taken.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError, nearest, nearest_file
from yolofast.files.atomic_file import write_output
from yolofast.track.formats.coco_results import COCO_ENDING, read_coco_results
from yolofast.track.formats.folders import find_sequences, read_sequences
from yolofast.track.formats.sequence import UNKNOWN, Bools, Floats, Ints

ENDING = ".npz"
USUAL_RATE = 30.0
"""Frames per second where nothing states them."""
LEAST_SCORE = 0.01
"""Of what is stored: no published tracker looks at less."""
_COLUMNS = {"frame": np.int64, "box": np.float64, "score": np.float64, "label": np.int64, "times": np.float64}
_NUMBERS = ("length", "frame_rate", "width", "height")
_LARGEST = 8 * 2**30
"""Bytes that the arrays of a file may take."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredDetections:
    """n detections in `length` frames, which count from 1."""

    name: str
    length: int
    frame: Ints
    """[n], ascending"""
    box: Floats
    """[n, 4] x1, y1, x2, y2 in pixels"""
    score: Floats
    """[n]"""
    label: Ints
    """[n]; -1 where no class is given"""
    times: Floats
    """[length] seconds, ascending"""
    frame_rate: float = USUAL_RATE
    width: int | None = None
    height: int | None = None
    names: tuple[str, ...] = ()
    """Of the classes, if known."""
    features: npt.NDArray[np.float32] | None = None
    """[n, d] what each detection looks like"""
    warps: Floats | None = None
    """[length, 2, 3] the camera's motion, from the frame before to each"""

    def __len__(self) -> int:
        """Of detections."""
        return len(self.frame)

    def starts(self) -> Ints:
        """[length + 1] detections of frame f are `starts[f - 1] : starts[f]`."""
        return np.searchsorted(self.frame, np.arange(1, self.length + 2))

    def at_rate(self, frame_rate: float) -> Self:
        """Whatever was stated before: frames follow one another evenly."""
        return replace(self, frame_rate=frame_rate, times=np.arange(self.length) / frame_rate)

    def kept(self, which: Bools | Ints) -> Self:
        """Some of the detections."""
        columns = {key: getattr(self, key)[which] for key in ("frame", "box", "score", "label")}
        return replace(self, **columns, features=None if self.features is None else self.features[which])


def write_detections(path: str | Path, stored: StoredDetections) -> Path:
    """The file appears whole or not at all."""
    arrays: dict[str, Any] = {key: getattr(stored, key) for key in _COLUMNS}
    arrays |= {key: getattr(stored, key) or 0 for key in _NUMBERS}
    arrays |= {"name": np.array(stored.name), "names": np.array(stored.names, dtype=np.str_)}
    arrays |= {key: value for key in ("features", "warps") if (value := getattr(stored, key)) is not None}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return write_output(path, content.getvalue())


def read_detections(
    path: str | Path, *, name: str | None = None, faults: list[Fault] | None = None, skip_bad: bool = False
) -> StoredDetections:
    """Of one video; `name` chooses one where a file or folder holds several."""
    found = read_all_detections(path, names=None if name is None else [name], faults=faults, skip_bad=skip_bad)
    if len(found) > 1:
        what = f"holds detections of {len(found)} videos: {', '.join(list(found)[:8])}"
        raise UserError(what, where=path, fix="name one of them")
    return next(iter(found.values()))


def read_all_detections(
    place: str | Path,
    *,
    names: Iterable[str] | None = None,
    images: Path | None = None,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
) -> dict[str, StoredDetections]:
    """By the name of the video, sorted: of a file, or of a folder of files or of MOT sequences.

    `images` is the COCO file that says which frames the images of COCO results are.
    """
    place = Path(place)
    if not place.exists():
        fix = f"give {ENDING} of predict --save-detections, det.txt, or COCO results"
        raise UserError(f"does not exist{nearest_file(place)}", where=place, fix=fix)
    own = sorted(place.glob(f"*{ENDING}")) if place.is_dir() else [place] if place.suffix.lower() == ENDING else []
    if own:
        found = {path.stem: path for path in own}
        return {key: _read_own(found[key]) for key in _chosen(found, names, place)}
    if place.suffix.lower() == COCO_ENDING:
        sources = read_coco_results(place, images=images, skip_bad=skip_bad, faults=faults)
        return {key: make_detections(key, **sources[key]) for key in _chosen(sources, names, place)}
    chosen = _chosen(find_sequences(place, "detections"), names, place)
    read = read_sequences(place, "detections", names=chosen, faults=faults, skip_bad=skip_bad)
    return {
        key: make_detections(
            key, frame=one.frame, box=one.box, score=one.score, label=one.label, length=one.length,
            frame_rate=one.frame_rate, width=one.width, height=one.height,
        )
        for key, one in read.items()
    }  # fmt: skip


def _chosen(found: Mapping[str, object], names: Iterable[str] | None, place: Path) -> list[str]:
    if names is None:
        return sorted(found)
    chosen = list(names)
    for name in chosen:
        if name not in found:
            fix = f"it has {', '.join(list(found)[:8])}"
            raise UserError(f"has no detections of {name}{nearest(name, found)}", where=place, fix=fix)
    return chosen


def make_detections(
    name: str,
    *,
    frame: npt.ArrayLike,
    box: npt.ArrayLike,
    score: npt.ArrayLike,
    label: npt.ArrayLike | None = None,
    length: int | None = None,
    times: npt.ArrayLike | None = None,
    frame_rate: float | None = None,
    width: int | None = None,
    height: int | None = None,
    names: Sequence[str] = (),
    features: npt.ArrayLike | None = None,
    warps: npt.ArrayLike | None = None,
) -> StoredDetections:
    """From columns in any order of frames. Without `times`, frames follow one another at the frame rate."""
    frames = np.asarray(frame, np.int64).reshape(-1)
    order = np.argsort(frames, kind="stable")
    rate = frame_rate or USUAL_RATE
    last = int(frames.max()) if len(frames) else 0
    count = last if length is None else length
    stored = StoredDetections(
        name=name,
        length=count,
        frame=frames[order],
        box=np.asarray(box, np.float64).reshape(-1, 4)[order],
        score=np.asarray(score, np.float64).reshape(-1)[order],
        label=(np.full(len(frames), UNKNOWN) if label is None else np.asarray(label, np.int64).reshape(-1))[order],
        times=np.arange(count) / rate if times is None else np.asarray(times, np.float64),
        frame_rate=float(rate),
        width=width or None,
        height=height or None,
        names=tuple(map(str, names)),
        features=None if features is None else np.asarray(features, np.float32)[order],
        warps=None if warps is None else np.asarray(warps, np.float64),
    )
    _check(stored, f"detections of {name}")
    return stored


def _read_own(path: Path) -> StoredDetections:
    about: dict[str, Any] = {"where": path, "fix": "make it again with predict --save-detections"}
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
        if size > _LARGEST:
            raise UserError(f"would take {size:,} bytes of memory, more than {_LARGEST:,}", where=path)
        with np.load(path, allow_pickle=False) as archive:
            found = {key: archive[key] for key in archive.files}
        columns = {key: found[key].astype(kind) for key, kind in _COLUMNS.items()}
        numbers = {key: found[key].item() for key in _NUMBERS}
        stored = StoredDetections(
            name=path.stem,
            **columns,
            length=int(numbers["length"]),
            frame_rate=float(numbers["frame_rate"]),
            width=int(numbers["width"]) or None,
            height=int(numbers["height"]) or None,
            names=tuple(map(str, found["names"].reshape(-1).tolist())),
            features=found.get("features"),
            warps=found.get("warps"),
        )
    except UserError:
        raise
    except KeyError as error:
        raise UserError(f"is not a file of detections: it has no {error}", **about) from None
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UserError(f"is not a file of detections, or is damaged: {error}", **about) from None
    _check(stored, str(path))
    return stored


def _check(stored: StoredDetections, where: str) -> None:
    """Files may come from elsewhere: what trackers rely on is checked once."""
    rows, length = len(stored.frame), stored.length
    shapes = {"frame": (rows,), "box": (rows, 4), "score": (rows,), "label": (rows,), "times": (length,)}
    if stored.warps is not None:
        shapes["warps"] = (length, 2, 3)
    for key, shape in shapes.items():
        found = getattr(stored, key)
        if found.shape != shape:
            raise UserError(f"{key} has the shape {found.shape} instead of {shape}", where=where, fix="make it again")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise UserError(f"{key} has values that are not finite numbers", where=where, fix="make it again")
    if stored.features is not None and (stored.features.ndim != 2 or len(stored.features) != rows):
        what = f"features have the shape {stored.features.shape} for {rows} detections"
        raise UserError(what, where=where, fix="give one row per detection")
    inside = not rows or 1 <= stored.frame[0] <= stored.frame[-1] <= length
    wrong = {
        "frames are not in order": (np.diff(stored.frame) < 0).any(),
        f"there are detections outside frames 1 to {length}": not inside,
        "a box ends before it begins": (stored.box[:, 2:] < stored.box[:, :2]).any(),
        "times do not ascend": (np.diff(stored.times) <= 0).any(),
        "the frame rate is not above 0": not 0 < stored.frame_rate < np.inf,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise UserError(what, where=where, fix="correct it, or make it again")


class DetectionRecorder:
    """Collects the detections of one source, frame by frame; frames may be missing in between."""

    def __init__(self, name: str, frame_rate: float, names: Sequence[str] = ()) -> None:
        self.name, self.frame_rate, self.names = name, frame_rate, tuple(names)
        self._numbers: list[int] = []
        self._times: list[float] = []
        self._parts: list[tuple[Any, Any, Any]] = []
        self._size: tuple[int, int] | None = None

    def add(self, number: int, time: float, size: tuple[int, int], boxes: Any, scores: Any, labels: Any) -> None:
        """`number` counts from 1; `size` is width and height of the image."""
        self._size = self._size or size
        self._numbers.append(number)
        self._times.append(time)
        self._parts.append((boxes, scores, labels))

    def stored(self) -> StoredDetections:
        counts = [len(scores) for _, scores, _ in self._parts]
        length = max(self._numbers, default=0)
        boxes, scores, labels = (list(column) for column in zip(*self._parts, strict=True)) if counts else ([], [], [])
        width, height = self._size or (None, None)
        every = np.arange(1, length + 1)
        # Before the first frame that was seen, and in gaps, time runs at the stated rate or evenly.
        times = np.interp(every, self._numbers, self._times) if counts else np.zeros(0)
        if counts and self._numbers[0] > 1:
            early = every < self._numbers[0]
            times[early] = self._times[0] - (self._numbers[0] - every[early]) / self.frame_rate
        return make_detections(
            self.name,
            frame=np.repeat(np.array(self._numbers, np.int64), counts),
            box=np.concatenate([np.zeros((0, 4)), *boxes]),
            score=np.concatenate([np.zeros(0), *scores]),
            label=np.concatenate([np.zeros(0, np.int64), *labels]),
            length=length,
            times=times,
            frame_rate=self.frame_rate,
            width=width,
            height=height,
            names=self.names,
        )
