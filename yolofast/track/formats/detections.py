"""Stored detections: what a network saw in one video, so that trackers can be tried without the network.

One `.npz` per source holds columns, sorted by frame, and how they were made. Nothing in a file is executed, and its
size is checked before memory is taken. `read_detections.py` reads other files as such too.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.files.atomic_file import write_output
from yolofast.files.known_numbers import NO_ARRAYS
from yolofast.track.formats.sequence import UNKNOWN, Bools, Floats, Ints
from yolofast.track.formats.warps import chained

ENDING = ".npz"
USUAL_RATE = 30.0
"""Frames per second where nothing states them."""
LEAST_SCORE = 0.01
"""Of what is stored: no published tracker looks at less."""
_COLUMNS = {"frame": np.int64, "box": np.float64, "score": np.float64, "label": np.int64, "times": np.float64}
_NUMBERS = ("length", "frame_rate", "width", "height")
_OPTIONAL = ("features", "warps", "seen", "across", "within")
_EVERY = (*_COLUMNS, *_NUMBERS, *_OPTIONAL, "names", "every", "made")
_SMALL, _LARGEST_RATIO = 2**28, 100
"""Bytes that the arrays of a file may take whatever its own size, and how many times that otherwise: a file of nothing
but zeros is a thousandth of what it holds."""


@dataclass(frozen=True, kw_only=True)
class Making:
    """How a network's detections were made, so that readers do with them what a run with the network does."""

    weights: str
    size: tuple[int, int]
    """Height and width of the network's input."""
    conf: float
    iou: float
    """The overlap above which a box was suppressed."""
    overlaps: Literal["across", "within", "both"]
    """Whether boxes of other classes suppress too. Both: what either leaves is stored, with marks."""
    marked: tuple[float, ...] = ()
    """Overlaps that there are marks for."""
    most: int
    """Of an image."""
    camera: str | None = None
    """How the camera's motion was found, if it was estimated."""
    rounds_down: bool = False
    """Sides of an image in the network's input; otherwise they are rounded to the nearest."""


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
    """[length, 2, 3] the camera's motion, from the frame before that was looked at to each"""
    seen: Ints | None = None
    """Frames that were looked at, ascending; None: all."""
    every: int = 1
    """One of so many frames was looked at."""
    across: Bools | None = None
    """[n, k] whether it is left at each marked overlap, where overlaps count across classes"""
    within: Bools | None = None
    """[n, k] the same, where they count within a class"""
    made: Making | None = None
    """None where a file does not say it."""

    def __len__(self) -> int:
        """Of detections."""
        return len(self.frame)

    def starts(self) -> Ints:
        """[length + 1] detections of frame f are `starts[f - 1] : starts[f]`."""
        return np.searchsorted(self.frame, np.arange(1, self.length + 2))

    def looked_at(self) -> Ints:
        return np.arange(1, self.length + 1) if self.seen is None else self.seen

    @property
    def used_rate(self) -> float:
        """Frames a second that were looked at; `frame_rate` is that of their numbers."""
        return self.frame_rate / self.every

    def thinned(self, every: int) -> Self:
        """Every N-th of the frames that were looked at; their numbers and times stay."""
        if every == 1:
            return self
        seen = self.looked_at()[::every]
        moves = warps = self.warps
        if moves is not None:  # the motion of frames between belongs to the next one
            warps = np.tile(np.eye(2, 3), (self.length, 1, 1))
            for before, number in pairwise([0, *seen.tolist()]):
                warps[number - 1] = chained(moves[before:number])
        return replace(self.kept(np.isin(self.frame, seen)), seen=seen, every=self.every * every, warps=warps)

    def at_rate(self, frame_rate: float) -> Self:
        """Whatever was stated before: frames follow one another evenly."""
        return replace(self, frame_rate=frame_rate, times=np.arange(self.length) / frame_rate)

    def kept(self, which: Bools | Ints) -> Self:
        """Some of the detections."""
        keys = ("frame", "box", "score", "label", "features", "across", "within")
        columns = {key: value[which] for key in keys if (value := getattr(self, key)) is not None}
        return replace(self, **columns)


def write_detections(path: str | Path, stored: StoredDetections) -> Path:
    """The file appears whole or not at all."""
    arrays: dict[str, Any] = {key: getattr(stored, key) for key in _COLUMNS}
    arrays |= {key: getattr(stored, key) or 0 for key in _NUMBERS}
    arrays |= {"name": np.array(stored.name), "names": np.array(stored.names, dtype=np.str_)}
    arrays |= {key: value for key in _OPTIONAL if (value := getattr(stored, key)) is not None}
    arrays |= {"every": stored.every}
    if stored.made is not None:
        arrays["made"] = np.array(json.dumps(asdict(stored.made)))
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return write_output(path, content.getvalue())


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
    seen: npt.ArrayLike | None = None,
    every: int = 1,
    across: npt.ArrayLike | None = None,
    within: npt.ArrayLike | None = None,
    made: Making | None = None,
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
        seen=None if seen is None else np.asarray(seen, np.int64),
        every=every,
        across=None if across is None else np.asarray(across, np.bool_)[order],
        within=None if within is None else np.asarray(within, np.bool_)[order],
        made=made,
    )
    _check(stored, f"detections of {name}")
    return stored


def read_own(path: Path) -> StoredDetections:
    about: dict[str, Any] = {"where": path, "fix": "make it again with predict --save-detections"}
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
        if size > max(_SMALL, path.stat().st_size * _LARGEST_RATIO):
            raise OSError(f"it would take {size:,} bytes of memory")
        with np.load(path, allow_pickle=False) as archive:
            found = {key: archive[key] for key in _EVERY if key in archive.files}
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
            seen=found.get("seen"),
            every=int(found["every"].item()) if "every" in found else 1,
            across=found.get("across"),
            within=found.get("within"),
            made=_making(found["made"].item()) if "made" in found else None,
        )
    except KeyError as error:
        raise UserError(f"is not a file of detections: it has no {error}", **about) from None
    except NO_ARRAYS as error:
        raise UserError(f"is not a file of detections, or is damaged: {error}", **about) from None
    _check(stored, str(path))
    return stored


def _making(text: str) -> Making:
    """What later versions may add is left out."""
    given = json.loads(text)
    known = {key: given[key] for key in Making.__dataclass_fields__ if key in given}
    made = Making(**{**known, "size": tuple(known["size"]), "marked": tuple(known["marked"])})
    if (
        not isinstance(made.iou, float)
        or not isinstance(made.most, int)
        or made.overlaps not in ("across", "within", "both")
    ):
        raise ValueError(f"made is {text[:80]}")
    return made


def _check(stored: StoredDetections, where: str) -> None:
    """Files may come from elsewhere: what trackers rely on is checked once."""
    rows, length = len(stored.frame), stored.length
    shapes = {"frame": (rows,), "box": (rows, 4), "score": (rows,), "label": (rows,), "times": (length,)}
    marks = rows, len(() if stored.made is None else stored.made.marked)
    optional = {"warps": (length, 2, 3), "across": marks, "within": marks}
    shapes |= {key: shape for key, shape in optional.items() if getattr(stored, key) is not None}
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
    seen = stored.looked_at()
    both = stored.made is not None and stored.made.overlaps == "both"
    wrong = {
        "frames are not in order": (np.diff(stored.frame) < 0).any(),
        f"there are detections outside frames 1 to {length}": not inside,
        "a box ends before it begins": (stored.box[:, 2:] < stored.box[:, :2]).any(),
        "times do not ascend": (np.diff(stored.times) <= 0).any(),
        "there are detections in frames that were not looked at": not np.isin(stored.frame, seen).all(),
        "frames that were looked at do not ascend": seen.ndim != 1 or (np.diff(seen) <= 0).any(),
        "marks of what was suppressed are missing": both and (stored.across is None or stored.within is None),
        "every is not a number from 1": stored.every < 1,
        "the frame rate is not above 0": not 0 < stored.frame_rate < np.inf,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise UserError(what, where=where, fix="correct it, or make it again")
